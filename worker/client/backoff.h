// PURE: exponential backoff with jitter, drawn from a hash so that a run of it repeats for the same seed.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace diloco {

class Backoff {
 public:
  struct Options {
    absl::Duration first = absl::Milliseconds(100);  // > 0.
    absl::Duration longest = absl::Seconds(1);       // >= first. After an outage nobody is later than this.
    double factor = 1.6;                             // >= 1.
    uint64_t seed = 0;
  };

  explicit Backoff(const Options& options) : options_(options), next_(options.first) {}

  // The time to wait before the next try: in [1/2, 1) of first, first * factor, ... up to longest.
  absl::Duration Next();
  // After a success: starts again at `first`.
  void Reset() { next_ = options_.first; }

 private:
  Options options_;
  absl::Duration next_;
  uint64_t draws_ = 0;
};

}  // namespace diloco
