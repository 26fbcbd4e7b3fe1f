#include "coordinator/round/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace diloco {
namespace {

constexpr AdaptiveGrace kGrace = {.floor = absl::Seconds(1), .cap = absl::Seconds(60)};

MonotonicTime At(double seconds) { return MonotonicTime{} + absl::Seconds(seconds); }

// Round r's quorum is met at 100 r, and its last contribution comes `waits[r]` seconds later.
Arrivals After(const std::vector<double>& waits) {
  Arrivals arrivals;
  for (size_t round = 0; round < waits.size(); ++round) {
    const double start = 100.0 * static_cast<double>(round);
    arrivals.NoteQuorum(static_cast<int64_t>(round), At(start));
    arrivals.NoteContribution(static_cast<int64_t>(round), At(start + waits[round] / 2));
    arrivals.NoteContribution(static_cast<int64_t>(round), At(start + waits[round]));
  }
  return arrivals;
}

double WindowSeconds(const Arrivals& arrivals, int64_t round, AdaptiveGrace grace = kGrace) {
  return absl::ToDoubleSeconds(arrivals.Window(grace, round).length);
}

TEST(ArrivalsTest, TheWindowIsTheMedianPlusThreeSpreads) {
  // Median 6; deviations 2, 1, 0, 1, 34: median 1. 6 + 3 * 1.4826 * 1 = 10.4478.
  const Arrivals arrivals = After({4, 5, 6, 7, 40});
  EXPECT_NEAR(WindowSeconds(arrivals, 5), 10.4478, 1e-9);
  EXPECT_EQ(arrivals.Window(kGrace, 5).basis, "adaptive: median 6.0s, spread 1.5s, 5 rounds");
  // An even number: median 7, between 6 and 8; deviations 5, 3, 1, 1, 3, 33: median 3. 7 + 3 * 1.4826 * 3 = 20.3434.
  EXPECT_NEAR(WindowSeconds(After({2, 4, 6, 8, 10, 40}), 6), 20.3434, 1e-9);
}

TEST(ArrivalsTest, OneRoundInWhichALinkStoodStillMovesLittle) {
  const double before = WindowSeconds(After({4, 5, 6, 5, 4, 6, 5}), 7);
  const double after = WindowSeconds(After({4, 5, 6, 5, 4, 6, 5, 3600}), 8);
  EXPECT_NEAR(after, before, 1.5);
}

TEST(ArrivalsTest, FloorAndCapHold) {
  EXPECT_EQ(WindowSeconds(After({0.1, 0.1, 0.1, 0.1, 0.1}), 5), 1);
  EXPECT_EQ(WindowSeconds(After({50, 55, 60, 65, 70}), 5), 60);
  EXPECT_EQ(WindowSeconds(After({5, 5, 5, 5, 5}), 5), 5);  // No spread at all.
}

TEST(ArrivalsTest, UntilEnoughIsKnownTheWindowIsTheCap) {
  const Arrivals arrivals = After({4, 4, 4, 4});
  EXPECT_EQ(WindowSeconds(arrivals, 4), 60);
  EXPECT_EQ(arrivals.Window(kGrace, 4).basis, "adaptive: the cap, for 4 of 5 waits are known");
  EXPECT_EQ(WindowSeconds(After({4, 4, 4, 4, 4}), 5), 4);
}

TEST(ArrivalsTest, OnlyEarlierRoundsCount) {
  const Arrivals arrivals = After({4, 4, 4, 4, 4, 30, 30, 30});
  EXPECT_EQ(WindowSeconds(arrivals, 5), 4);
}

TEST(ArrivalsTest, WhatComesBeforeTheQuorumIsNoWait) {
  Arrivals arrivals = After({4, 4, 4, 4});
  arrivals.NoteContribution(4, At(399));
  arrivals.NoteQuorum(4, At(400));
  EXPECT_EQ(WindowSeconds(arrivals, 5), 60);
  arrivals.NoteContribution(4, At(407));
  EXPECT_EQ(WindowSeconds(arrivals, 5), 4);
}

TEST(ArrivalsTest, AQuorumThatIsLostAndMetAgainCountsFromThen) {
  Arrivals arrivals = After({4, 4, 4, 4, 50});
  arrivals.NoteQuorum(4, At(500));
  EXPECT_EQ(WindowSeconds(arrivals, 5), 60);
  arrivals.NoteContribution(4, At(504));
  EXPECT_EQ(WindowSeconds(arrivals, 5), 4);
}

// A window that was too short finds out: the late contribution is that round's wait.
TEST(ArrivalsTest, ALateContributionCounts) {
  Arrivals arrivals = After({4, 4, 4, 4, 4});
  for (int64_t round = 5; round < 11; ++round) {
    const double start = 100.0 * static_cast<double>(round);
    arrivals.NoteQuorum(round, At(start));
    arrivals.NoteQuorum(round + 1, At(start + 8));
    arrivals.NoteContribution(round, At(start + 20));
  }
  EXPECT_NEAR(WindowSeconds(arrivals, 11), 20, 1e-9);  // Six of eleven waits are 20 s, so that both medians are theirs.
}

TEST(ArrivalsTest, OnlyTheNewestRoundsAreRemembered) {
  std::vector<double> waits(kGraceRounds, 50);
  waits.insert(waits.end(), kGraceRounds, 7);
  Arrivals arrivals = After(waits);
  EXPECT_EQ(WindowSeconds(arrivals, 2 * kGraceRounds), 7);
  // One that is forgotten is not taken up again.
  arrivals.NoteContribution(kGraceRounds - 1, At(1e6));
  EXPECT_EQ(arrivals.Window(kGrace, 2 * kGraceRounds).basis, "adaptive: median 7.0s, spread 0.0s, 32 rounds");
}

// Whatever was seen, and in whatever order the rounds' waits were: inside the bounds, at least the median where they
// allow it, longer when every wait is longer, and the same again for the same.
TEST(ArrivalsTest, RandomWaits) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<double> waits(kLeastGraceWaits + random() % 30);
    for (double& wait : waits) wait = static_cast<double>(random() % 1000) / 10;
    const auto rounds = static_cast<int64_t>(waits.size());
    const double window = WindowSeconds(After(waits), rounds);
    EXPECT_GE(window, 1);
    EXPECT_LE(window, 60);
    std::vector<double> sorted = waits;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_GE(window + 1e-9, std::min(60.0, sorted[(sorted.size() - 1) / 2]));
    EXPECT_EQ(WindowSeconds(After(sorted), rounds), window);
    std::vector<double> longer = waits;
    for (double& wait : longer) wait += 5;
    EXPECT_NEAR(WindowSeconds(After(longer), rounds, {.floor = absl::ZeroDuration(), .cap = absl::Hours(1)}),
                WindowSeconds(After(waits), rounds, {.floor = absl::ZeroDuration(), .cap = absl::Hours(1)}) + 5, 1e-6);
  }
}

}  // namespace
}  // namespace diloco
