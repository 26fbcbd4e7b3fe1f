#include "worker/client/backoff.h"

#include <algorithm>

namespace diloco {
namespace {

// SplitMix64's output function: a bijection that spreads consecutive inputs.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

absl::Duration Backoff::Next() {
  const double unit = static_cast<double>(Mix(options_.seed ^ Mix(draws_++)) >> 11) * 0x1.0p-53;  // [0, 1).
  const absl::Duration wait = next_ * (0.5 + unit / 2);
  next_ = std::min(next_ * options_.factor, options_.longest);
  return wait;
}

}  // namespace diloco
