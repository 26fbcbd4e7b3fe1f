// Facts of a coordinator's log.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace diloco::testing {

// The value of ` key=` in a log line, without quotes; empty: none.
std::string LogField(const std::string& line, const std::string& key);

// When the line was written.
absl::Time LogTime(const std::string& line);

// Lines of an event, oldest first.
std::vector<std::string> LinesOf(const std::string& log, const std::string& event);

// One fragment's round.
struct LoggedRound {
  int fragment = 0;
  int64_t round = 0;
  absl::Time opened;
  absl::Time closed;
};
std::vector<LoggedRound> CommittedRounds(const std::string& log);

}  // namespace diloco::testing
