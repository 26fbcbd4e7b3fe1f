// The random choices of a test: all of them follow from one number, which a failure prints with the command that
// chooses them again. (When processes are reached still depends on the machine.)
#pragma once

#include <cstdint>
#include <random>

#include "absl/time/time.h"

namespace diloco::testing {

class Seed {
 public:
  // DILOCO_CHAOS_SEED, else 1.
  Seed();
  // Says how to choose again when the test has failed.
  ~Seed();
  Seed(const Seed&) = delete;
  Seed& operator=(const Seed&) = delete;

  int Below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
  absl::Duration Between(absl::Duration least, absl::Duration most) {
    return least + std::uniform_real_distribution<double>(0, 1)(random_) * (most - least);
  }

 private:
  const uint64_t value_;
  std::mt19937_64 random_;
};

}  // namespace diloco::testing
