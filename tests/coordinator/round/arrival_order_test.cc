// The same set of contributions gives the same merge, in whatever order it arrives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "coordinator/round/round_machine.h"

namespace diloco {
namespace {

constexpr int kSets = 100;
constexpr int kOrders = 20;

// What a random set consists of. The last worker's contribution of round 1 always comes last, so that every order has
// the whole set when the round closes.
struct Arrivals {
  RoundOptions options;
  std::vector<RoundEvent> first;  // Closes round 0, by the grace window.
  std::vector<RoundEvent>
      shuffled;  // Late ones of round 0, and round 1: contributions, refusals, abstentions, doubles.
  RoundEvent last;
};

Arrivals RandomArrivals(std::mt19937_64& random) {
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<uint64_t>(limit)); };
  Arrivals out;
  out.options.workers = 3 + below(4);
  out.options.quorum = 1;
  out.options.grace_window = absl::Seconds(30);
  out.options.lease = absl::Minutes(10);
  out.options.late = below(2) == 0 ? LatePolicy::kMerge : LatePolicy::kDrop;
  out.options.rounds = 10;
  out.options.open_rounds = 3;
  out.options.max_members = out.options.workers;
  for (int i = 0; i < out.options.workers; ++i) {
    const std::string worker(1, static_cast<char>('a' + i));
    const auto stored = [&](int64_t round) {
      return ContributionStored{{worker, 0, round}, 1, {0, random()}, 0.1 * (1 + below(100))};
    };
    const bool last = i + 1 == out.options.workers;
    // The first worker is on time, so that round 0 closes.
    (i == 0 || below(2) == 0 ? out.first : out.shuffled).push_back(stored(0));
    if (last) {
      out.last = stored(1);
      continue;
    }
    const int kind = below(6);
    if (kind == 0) {
      out.shuffled.push_back(WorkerAbstained{{worker, 0, 1}, 1, "not finite"});
    } else if (kind == 1) {
      out.shuffled.push_back(ContributionRefused{{worker, 0, 1}, 1, {0, random()}, "not finite"});
    } else {
      out.shuffled.push_back(stored(1));
      if (below(3) == 0) out.shuffled.push_back(out.shuffled.back());
    }
    if (below(2) == 0) out.shuffled.push_back(stored(2));
  }
  return out;
}

// The merge of round 1 and what is made durable of it; compared bit for bit.
struct Outcome {
  std::vector<Settled> merged;
  std::vector<Settled> settled;
  double participating_weight = 0;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome MergeOfRoundOne(const Arrivals& arrivals) {
  RoundMachine machine(arrivals.options);
  MonotonicTime now;
  Outcome out;
  int merges_of_round_one = 0;
  const auto step = [&](const RoundEvent& event) {
    for (const RoundEffect& effect : machine.Step(event, now)) {
      if (const auto* merge = std::get_if<StartMerge>(&effect)) {
        out.merged = merge->merged;
        merges_of_round_one += merge->round == 1 ? 1 : 0;
      } else if (const auto* persist = std::get_if<PersistCommit>(&effect)) {
        out.settled = persist->settled;
        out.participating_weight = persist->participating_weight;
      }
    }
  };
  for (int i = 0; i < arrivals.options.workers; ++i) step(WorkerJoined{std::string(1, static_cast<char>('a' + i)), 1});
  step(RunSeeded{});
  for (const RoundEvent& event : arrivals.first) step(event);
  now = now + arrivals.options.grace_window;
  step(TimePassed{});
  step(MergeFinished{0, 0});
  step(CommitPersisted{0, 0});
  for (const RoundEvent& event : arrivals.shuffled) step(event);
  EXPECT_EQ(merges_of_round_one, 0) << "round 1 closed before its set was whole";
  step(arrivals.last);
  EXPECT_EQ(merges_of_round_one, 1);
  step(MergeFinished{0, 1});
  return out;
}

TEST(ArrivalOrderTest, DoesNotMatterForTheSameSet) {
  for (uint64_t seed = 1; seed <= kSets; ++seed) {
    std::mt19937_64 random(seed);
    Arrivals arrivals = RandomArrivals(random);
    const Outcome wanted = MergeOfRoundOne(arrivals);
    ASSERT_FALSE(wanted.merged.empty()) << "seed " << seed;
    for (int order = 0; order < kOrders; ++order) {
      std::shuffle(arrivals.shuffled.begin(), arrivals.shuffled.end(), random);
      ASSERT_TRUE(MergeOfRoundOne(arrivals) == wanted) << "seed " << seed << ", order " << order;
    }
  }
}

}  // namespace
}  // namespace diloco
