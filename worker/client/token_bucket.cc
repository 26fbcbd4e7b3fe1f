#include "worker/client/token_bucket.h"

#include <algorithm>

#include "common/base/check.h"

namespace diloco {

void TokenBucket::Refill(MonotonicTime now) {
  if (started_ && now > filled_at_) {
    tokens_ = std::min(capacity_, tokens_ + absl::ToDoubleSeconds(now - filled_at_) * static_cast<double>(rate_));
  }
  filled_at_ = started_ ? std::max(filled_at_, now) : now;
  started_ = true;
}

MonotonicTime TokenBucket::ReadyAt(MonotonicTime now) {
  if (rate_ == 0) {
    return now;
  }
  Refill(now);
  if (tokens_ >= 0) {
    return now;
  }
  // One nanosecond more than the quotient, so that rounding never leaves a sliver of debt at the time returned.
  return now + absl::Seconds(-tokens_ / static_cast<double>(rate_)) + absl::Nanoseconds(1);
}

void TokenBucket::Take(uint64_t bytes, MonotonicTime now) {
  if (rate_ == 0) {
    return;
  }
  DILOCO_CHECK(ReadyAt(now) <= now);
  tokens_ -= static_cast<double>(bytes);
}

}  // namespace diloco
