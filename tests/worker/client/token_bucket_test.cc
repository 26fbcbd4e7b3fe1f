#include "worker/client/token_bucket.h"

#include "gtest/gtest.h"

namespace diloco {
namespace {

constexpr int64_t kRate = 1000;

TEST(TokenBucketTest, LongRunRateIsTheCapWhateverTheSize) {
  for (const uint64_t piece : {uint64_t{1}, uint64_t{700}, uint64_t{5000}}) {
    TokenBucket bucket(kRate, 500);
    MonotonicTime now{7};
    const MonotonicTime start = now;
    uint64_t sent = 0;
    while (sent < 100'000) {
      now = bucket.ReadyAt(now);
      bucket.Take(piece, now);
      sent += piece;
    }
    // All but the first capacity and the last piece was paid for in time.
    const double paid = absl::ToDoubleSeconds(now - start) * kRate;
    EXPECT_GE(paid, static_cast<double>(sent - piece) - 500 - 1);
    EXPECT_LE(paid, static_cast<double>(sent));
  }
}

TEST(TokenBucketTest, IdleTimeSavesAtMostTheCapacity) {
  TokenBucket bucket(kRate, 500);
  MonotonicTime now{0};
  EXPECT_EQ(bucket.ReadyAt(now), now);
  now = now + absl::Hours(1);
  bucket.Take(500, now);
  EXPECT_EQ(bucket.ReadyAt(now), now);
  bucket.Take(250, now);  // Into debt.
  EXPECT_NEAR(absl::ToDoubleSeconds(bucket.ReadyAt(now) - now), 0.25, 1e-8);
}

TEST(TokenBucketTest, ReadyTimeIsReady) {
  TokenBucket bucket(3, 0);  // A rate that no power of two divides.
  MonotonicTime now{12345};
  for (int i = 1; i < 1000; ++i) {
    now = bucket.ReadyAt(now);
    ASSERT_EQ(bucket.ReadyAt(now), now);
    bucket.Take(static_cast<uint64_t>(i), now);
  }
}

TEST(TokenBucketTest, NoCap) {
  TokenBucket bucket(0, 0);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(bucket.ReadyAt(MonotonicTime{5}), MonotonicTime{5});
    bucket.Take(1 << 30, MonotonicTime{5});
  }
}

}  // namespace
}  // namespace diloco
