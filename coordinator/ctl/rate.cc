#include "coordinator/ctl/rate.h"

#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace diloco {
namespace {

struct Unit {
  const char* name;
  double bytes;
};
constexpr Unit kUnits[] = {{"kbit", 1e3 / 8}, {"Mbit", 1e6 / 8}, {"Gbit", 1e9 / 8}, {"Tbit", 1e12 / 8},
                           {"kB", 1e3},       {"MB", 1e6},       {"GB", 1e9},       {"TB", 1e12}};

// `text` without `suffix`; false when it does not end so.
bool TakeSuffix(std::string& text, const std::string& suffix) {
  if (text.size() < suffix.size() || text.compare(text.size() - suffix.size(), suffix.size(), suffix) != 0)
    return false;
  text.resize(text.size() - suffix.size());
  return true;
}

}  // namespace

absl::StatusOr<double> ParseRate(std::string_view flag, std::string_view text) {
  if (text == "unlimited") return std::numeric_limits<double>::infinity();
  std::string number(text);
  TakeSuffix(number, "/s");
  for (const Unit& unit : kUnits) {
    if (!TakeSuffix(number, unit.name)) continue;
    double value = 0;
    if (absl::SimpleAtod(number, &value) && std::isfinite(value) && value > 0) return value * unit.bytes;
    break;
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("%s %s: use a rate above zero such as 400Mbit, 1.5Gbit or 10GB, or unlimited", flag, text));
}

std::string RateText(double bytes_per_second) {
  const double bits = 8 * bytes_per_second;
  if (!std::isfinite(bits)) return "unlimited";
  if (bits < 1e6) return absl::StrFormat("%.4g kbit/s", bits / 1e3);
  if (bits < 1e9) return absl::StrFormat("%.4g Mbit/s", bits / 1e6);
  return absl::StrFormat("%.4g Gbit/s", bits / 1e9);
}

}  // namespace diloco
