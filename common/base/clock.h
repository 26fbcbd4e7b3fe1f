// Monotonic time. Pure code takes `MonotonicTime now` as an argument; only the edges of a program hold a Clock.
// Wall-clock time is for people and file names and never enters a decision.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

#include "absl/time/time.h"

namespace diloco {

// A point on one process's monotonic clock. Never sent to another process.
struct MonotonicTime {
  int64_t nanoseconds = 0;

  friend auto operator<=>(const MonotonicTime&, const MonotonicTime&) = default;
  friend MonotonicTime operator+(MonotonicTime time, absl::Duration duration) {
    return {time.nanoseconds + absl::ToInt64Nanoseconds(duration)};
  }
  friend absl::Duration operator-(MonotonicTime later, MonotonicTime earlier) {
    return absl::Nanoseconds(later.nanoseconds - earlier.nanoseconds);
  }
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonotonicTime Now() const = 0;
};

// The process's steady clock. Thread-safe.
class SteadyClock final : public Clock {
 public:
  MonotonicTime Now() const override {
    return {std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
                .count()};
  }
};

// For waits on a CondVar.
inline std::chrono::steady_clock::time_point ToSteady(MonotonicTime time) {
  return std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::nanoseconds(time.nanoseconds)));
}

}  // namespace diloco
