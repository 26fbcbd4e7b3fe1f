// Messages as a hostile or broken peer may send them, made from a good one by reflection: a field that a message gains
// is covered without a word here.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "google/protobuf/message.h"

namespace diloco::testing {

struct HostileMessage {
  std::string what;  // "abstentions[0].round = -1", for a failure's text.
  std::unique_ptr<google::protobuf::Message> message;
};

// One message for each field of `good`, at any depth, and each hostile value of its type: both ends of a number's
// range, zero, -1, powers of two at which a conversion would wrap; NaN, infinities and denormals; strings that are
// empty, long, not UTF-8, or that would steer a terminal, a path or a label; digests of other sizes; numbers that no
// enum has; lists that are empty, doubled, or long. A repeated field or message that `good` leaves empty gets one
// element first.
std::vector<HostileMessage> HostileMessages(const google::protobuf::Message& good);

// `bytes` after 1 to 4 random edits: a bit turned, a byte replaced, a piece cut out, repeated or inserted.
std::string Mangled(std::string bytes, std::mt19937_64* random);

}  // namespace diloco::testing
