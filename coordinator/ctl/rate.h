// Data rates on the command line and for people. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace diloco {

// Bytes a second of a text such as "400Mbit", "1.5Gbit/s", "10GB/s" or "unlimited" (infinity). Units are powers of
// 1000: kbit to Tbit, kB to TB. `flag` names it in errors. Errors, kInvalidArgument: no such text, a rate that is not
// above zero.
absl::StatusOr<double> ParseRate(std::string_view flag, std::string_view text);

// "400 Mbit/s", "1.5 Gbit/s", "unlimited".
std::string RateText(double bytes_per_second);

}  // namespace diloco
