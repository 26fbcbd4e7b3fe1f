// PURE: a byte-rate cap. Bytes may be taken when the bucket is not in debt; taking more than it holds puts it in debt,
// which time pays back. So the long-run rate is exact for pieces of any size, and a burst is at most capacity + piece.
#pragma once

#include <cstdint>

#include "common/base/clock.h"

namespace diloco {

class TokenBucket {
 public:
  // `bytes_per_second`: 0 for no cap. The bucket starts full and holds at most `capacity` bytes, >= 0.
  TokenBucket(int64_t bytes_per_second, int64_t capacity)
      : rate_(bytes_per_second), capacity_(static_cast<double>(capacity)), tokens_(static_cast<double>(capacity)) {}

  // The earliest time, >= now, at which Take is allowed.
  MonotonicTime ReadyAt(MonotonicTime now);
  // ReadyAt(now) <= now.
  void Take(uint64_t bytes, MonotonicTime now);

 private:
  void Refill(MonotonicTime now);

  int64_t rate_;
  double capacity_;
  double tokens_;  // Bytes; negative: in debt.
  MonotonicTime filled_at_;
  bool started_ = false;
};

}  // namespace diloco
