// kill -9 of the coordinator in every state of a round and at random moments: no published round is lost, and the run
// ends with the consensus that its journal says.
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

#include "tests/chaos/cluster.h"
#include "tests/chaos/crash_moment.h"
#include "tests/chaos/is_ok.h"
#include "tests/chaos/preload.h"
#include "tests/chaos/seed.h"
#include "tests/support/line_watch.h"

namespace diloco::testing {
namespace {

constexpr int kWorkers = 3;
constexpr int kFragments = 3;

std::string Config(int64_t rounds, int64_t snapshot_every) {
  return absl::StrFormat(
      "run: {id: kill, workers: %d, rounds: %d}\n"
      "method: eager\n"
      "inner_steps: 4\n"
      "fragments: {count: %d}\n"
      "rounds: {heartbeat_interval: 200ms, lease: 20s, grace_window: 5s, snapshot_every: %d}\n",
      kWorkers, rounds, kFragments, snapshot_every);
}

// The oracle's view of the states in which coordinators died.
class Moments {
 public:
  void Add(const std::set<CrashState>& states) {
    for (const CrashState state : states) ++counts_[state];
  }
  int of(CrashState state) const {
    const auto found = counts_.find(state);
    return found == counts_.end() ? 0 : found->second;
  }
  void Print() const {
    std::cout << "  died while";
    for (const CrashState state : kCrashStates) std::cout << ' ' << NameOf(state) << ": " << of(state) << ';';
    std::cout << '\n';
  }

 private:
  std::map<CrashState, int> counts_;
};

// Runs with a kill each 0.1 to 2.5 s, one after the other, until there were `kills`.
void KillAtRandomMoments(int kills) {
  constexpr int64_t kRounds = 40;
  Seed seed;
  Moments moments;
  int done = 0;
  int runs = 0;
  while (done < kills) {
    ++runs;
    Cluster cluster(
        {.config_yaml = Config(kRounds, 4),
         .workers = kWorkers,
         .coordinator = {.arguments = {"--log-level", "debug"}, .environment = SlowSyncs(absl::Milliseconds(10))}});
    ASSERT_TRUE(IsOk(cluster.Start()));
    uint64_t log_offset = 0;
    while (done < kills) {
      const absl::Duration pause = seed.Between(absl::Milliseconds(100), absl::Milliseconds(2500));
      if (cluster.worker(0).Wait(pause).ok()) break;  // The run is over.
      cluster.coordinator().Kill();
      ++done;
      moments.Add(StatesAtCrash(cluster, kWorkers, kRounds, log_offset));
      ASSERT_TRUE(IsOk(cluster.CheckNothingLost()));
      log_offset = std::filesystem::file_size(cluster.coordinator().log_path());
      ASSERT_TRUE(IsOk(cluster.StartCoordinator()));
    }
    ASSERT_TRUE(IsOk(cluster.AwaitEnd(2 * kPatience)));
    ASSERT_TRUE(IsOk(cluster.CheckEndedWell()));
  }
  std::cout << "  " << done << " kills in " << runs << " runs\n";
  moments.Print();
}

TEST(CoordinatorKillTest, AtRandomMoments) { KillAtRandomMoments(10); }
TEST(CoordinatorKillTest, AtRandomMomentsFull) { KillAtRandomMoments(200); }

// A line of the log after which a state is near, and how long it may take to come.
struct Trigger {
  const char* text;
  absl::Duration within;
  int nth = 1;
};

Trigger TriggerOf(CrashState state) {
  constexpr absl::Duration kSync = absl::Milliseconds(40);
  switch (state) {
    case CrashState::kSeeding:
      return {"event=worker_joined", absl::ZeroDuration()};
    case CrashState::kWaiting:
      return {"phase=waiting_for_workers", absl::ZeroDuration()};
    case CrashState::kCollecting:
      return {"verdict=stored", absl::ZeroDuration()};
    case CrashState::kMerging:
      return {"verdict=stored", absl::ZeroDuration(), kWorkers};
    case CrashState::kCommitting:
    case CrashState::kNotPublished:
      return {"event=round_merged", 2 * kSync};
    case CrashState::kSnapshotting:
    case CrashState::kEnding:
      return {"event=round_committed", 10 * kSync};
    case CrashState::kEnded:
      return {"phase=ended", absl::ZeroDuration()};
  }
  return {"", absl::ZeroDuration()};
}

constexpr int64_t kRounds = 4;
constexpr int64_t kSnapshotEvery = 2;

int64_t RoundFor(CrashState state, Seed& seed) {
  if (state == CrashState::kEnding) return kRounds - 1;
  if (state == CrashState::kSnapshotting) return kSnapshotEvery - 1;
  return seed.Below(kRounds);
}

// Kills until a coordinator has died in the state; a run that ends before makes room for the next one.
class CoordinatorKillInStateTest : public ::testing::TestWithParam<CrashState> {};

TEST_P(CoordinatorKillInStateTest, LosesNothing) {
  constexpr int kMaxRuns = 40;
  Seed seed;
  Moments moments;
  const Trigger trigger = TriggerOf(GetParam());
  for (int run = 0; run < kMaxRuns && moments.of(GetParam()) == 0; ++run) {
    Cluster cluster(
        {.config_yaml = Config(kRounds, kSnapshotEvery),
         .workers = kWorkers,
         .elements = GetParam() == CrashState::kMerging ? 2'000'000 : 20'000,
         .coordinator = {.arguments = {"--log-level", "debug"}, .environment = SlowSyncs(absl::Milliseconds(40))}});
    ASSERT_TRUE(IsOk(cluster.StartCoordinator()));
    const int at_first = GetParam() == CrashState::kWaiting ? kWorkers - 1 : kWorkers;
    for (int worker = 0; worker < at_first; ++worker) cluster.StartWorker(worker);
    LineWatch log(cluster.coordinator().log_path(), 0);
    int seen = 0;
    const std::string of_round =
        absl::StrFormat("fragment=%d round=%d", seed.Below(kFragments), RoundFor(GetParam(), seed));
    const auto wanted = [&](const std::string& line) {
      const bool other_round = absl::StrContains(line, "fragment=") && !absl::StrContains(line, of_round);
      return absl::StrContains(line, trigger.text) && !other_round && ++seen == trigger.nth;
    };
    const absl::StatusOr<std::string> line = log.Next(wanted, kPatience);
    ASSERT_TRUE(line.ok()) << line.status() << cluster.coordinator().Log();
    cluster.coordinator().process().Wait(seed.Between(absl::ZeroDuration(), trigger.within)).IgnoreError();
    cluster.coordinator().Kill();
    moments.Add(StatesAtCrash(cluster, kWorkers, kRounds, 0));
    ASSERT_TRUE(IsOk(cluster.StartCoordinator()));
    for (int worker = at_first; worker < kWorkers; ++worker) cluster.StartWorker(worker);
    ASSERT_TRUE(IsOk(cluster.AwaitEnd(2 * kPatience)));
    ASSERT_TRUE(IsOk(cluster.CheckEndedWell()));
  }
  moments.Print();
  EXPECT_GE(moments.of(GetParam()), 1);
}

INSTANTIATE_TEST_SUITE_P(States, CoordinatorKillInStateTest, ::testing::ValuesIn(kCrashStates), [](const auto& state) {
  std::string name = NameOf(state.param);
  std::erase(name, ' ');
  return name;
});

}  // namespace
}  // namespace diloco::testing
