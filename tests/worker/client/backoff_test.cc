#include "worker/client/backoff.h"

#include <algorithm>
#include <set>

#include "gtest/gtest.h"

namespace diloco {
namespace {

TEST(BackoffTest, GrowsByTheFactorUpToTheLongestWithJitterBelow) {
  Backoff backoff({.first = absl::Seconds(1), .longest = absl::Seconds(10), .factor = 2, .seed = 3});
  absl::Duration expected = absl::Seconds(1);
  for (int i = 0; i < 20; ++i) {
    const absl::Duration wait = backoff.Next();
    EXPECT_GE(wait, expected / 2);
    EXPECT_LT(wait, expected);
    expected = std::min(expected * 2, absl::Seconds(10));
  }
}

TEST(BackoffTest, ResetStartsAgain) {
  Backoff backoff({.first = absl::Seconds(1), .longest = absl::Seconds(10), .factor = 10});
  backoff.Next();
  EXPECT_GE(backoff.Next(), absl::Seconds(5));
  backoff.Reset();
  EXPECT_LT(backoff.Next(), absl::Seconds(1));
}

TEST(BackoffTest, SeedDecidesTheJitter) {
  std::set<absl::Duration> waits;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Backoff a({.seed = seed});
    Backoff b({.seed = seed});
    const absl::Duration wait = a.Next();
    EXPECT_EQ(wait, b.Next());
    waits.insert(wait);
  }
  EXPECT_EQ(waits.size(), 50u);
}

}  // namespace
}  // namespace diloco
