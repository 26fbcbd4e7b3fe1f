// PURE: so many at once, and later so many a second.
#pragma once

#include <algorithm>

#include "absl/time/time.h"

#include "common/base/clock.h"

namespace diloco {

class Allowance {
 public:
  struct Options {
    double burst = 1;       // >= 1.
    double per_second = 1;  // > 0.
  };
  Allowance(const Options& options, MonotonicTime now) : options_(options), left_(options.burst), seen_(now) {}

  // True: one more is allowed now, and is taken.
  bool Take(MonotonicTime now) {
    left_ = Left(now);
    seen_ = now;
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }
  // Nothing that was taken counts any more.
  bool Untouched(MonotonicTime now) const { return Left(now) >= options_.burst; }

 private:
  double Left(MonotonicTime now) const {
    return std::min(options_.burst, left_ + absl::ToDoubleSeconds(now - seen_) * options_.per_second);
  }

  Options options_;
  double left_;
  MonotonicTime seen_;
};

}  // namespace diloco
