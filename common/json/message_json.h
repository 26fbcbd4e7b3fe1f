// API messages as protobuf's JSON, with the field names of the .proto files and every scalar present: what
// `dilococtl -o json` prints and the status page reads.
#pragma once

#include <string>

#include "google/protobuf/message.h"

namespace diloco {

enum class JsonStyle { kIndented, kOneLine };

// Numbers that JSON does not have (NaN, infinities) are null. As in protobuf's JSON, 64-bit integers are strings, bytes
// are base64 and durations are such as "1.5s"; one that is out of protobuf's range is left out. Bytes of a text that
// are not UTF-8 are replaced. Ends with a newline.
std::string ToJson(const google::protobuf::Message& message, JsonStyle style);

}  // namespace diloco
