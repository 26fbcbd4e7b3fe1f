// The wall clock steps by an hour, in the coordinator and in the workers: nobody is lost, no round closes early,
// nothing is sent again.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/chaos/cluster.h"
#include "tests/chaos/coordinator_log.h"
#include "tests/chaos/is_ok.h"
#include "tests/chaos/preload.h"
#include "tests/support/process.h"

namespace diloco::testing {
namespace {

// Two of three would be enough, so that a round that closes early shows.
constexpr char kConfig[] =
    "run: {id: clock, workers: 3, rounds: 24}\n"
    "method: eager\n"
    "inner_steps: 5\n"
    "fragments: {count: 2}\n"
    "rounds: {quorum: 2, heartbeat_interval: 200ms, lease: 60s, grace_window: 60s, snapshot_every: 4}\n";

TEST(ClockTest, StepsOfAnHourChangeNothing) {
  const TempFolder folder;
  const std::string shift_of_coordinator = folder.File("coordinator");
  const std::string shift_of_workers = folder.File("workers");
  SetRealtimeShift(shift_of_coordinator, absl::ZeroDuration());
  SetRealtimeShift(shift_of_workers, absl::ZeroDuration());
  Cluster cluster({.config_yaml = kConfig,
                   .workers = 3,
                   .step_time = absl::Milliseconds(30),
                   .coordinator = {.environment = ShiftedRealtime(shift_of_coordinator)},
                   .worker_environment = ShiftedRealtime(shift_of_workers)});
  ASSERT_TRUE(IsOk(cluster.Start()));
  const auto step_at = [&cluster](int64_t round, const std::string& file, absl::Duration shift) {
    ASSERT_TRUE(IsOk(cluster.AwaitRounds(round)));
    SetRealtimeShift(file, shift);
  };
  ASSERT_NO_FATAL_FAILURE(step_at(3, shift_of_coordinator, absl::Hours(1)));
  ASSERT_NO_FATAL_FAILURE(step_at(6, shift_of_coordinator, -absl::Hours(1)));
  ASSERT_NO_FATAL_FAILURE(step_at(9, shift_of_workers, absl::Hours(1)));
  ASSERT_NO_FATAL_FAILURE(step_at(12, shift_of_workers, -absl::Hours(1)));
  ASSERT_NO_FATAL_FAILURE(step_at(15, shift_of_coordinator, absl::ZeroDuration()));
  ASSERT_TRUE(IsOk(cluster.AwaitEnd(2 * kPatience)));
  ASSERT_TRUE(IsOk(cluster.CheckEndedWell()));

  const std::string log = cluster.coordinator().Log();
  std::vector<absl::Time> written;
  for (const std::string& line : LinesOf(log, "round_committed")) written.push_back(LogTime(line));
  const auto [earliest, latest] = std::minmax_element(written.begin(), written.end());
  EXPECT_GT(*latest - *earliest, absl::Minutes(100)) << "the coordinator's clock did step";
  EXPECT_TRUE(LinesOf(log, "worker_lost").empty()) << log;
  EXPECT_TRUE(LinesOf(log, "paused").empty()) << log;
  const absl::StatusOr<JournalReplay> replay = cluster.Replay();
  ASSERT_TRUE(IsOk(replay.status()));
  EXPECT_EQ(replay->contributions_merged(), 24 * 2 * 3) << "every round holds all three";
  for (int worker = 0; worker < 3; ++worker) {
    for (const nlohmann::json& line : cluster.TraceOf(worker)) {
      EXPECT_EQ(line.value("reconnects", 0), 0) << line;
    }
  }
}

// A machine that was suspended: the coordinator's own standstill is nobody's silence.
TEST(ClockTest, ACoordinatorThatStoodStillLosesNobody) {
  Cluster cluster({.config_yaml = "run: {id: standstill, workers: 3, rounds: 24}\n"
                                  "method: eager\n"
                                  "inner_steps: 5\n"
                                  "rounds: {quorum: 2, heartbeat_interval: 200ms, lease: 6s, grace_window: 60s}\n",
                   .workers = 3,
                   .step_time = absl::Milliseconds(30)});
  ASSERT_TRUE(IsOk(cluster.Start()));
  ASSERT_TRUE(IsOk(cluster.AwaitRounds(3)));
  cluster.coordinator().process().Signal(SIGSTOP);
  EXPECT_FALSE(cluster.worker(0).Wait(absl::Seconds(9)).ok()) << "longer than the lease";
  cluster.coordinator().process().Signal(SIGCONT);
  ASSERT_TRUE(IsOk(cluster.AwaitEnd(2 * kPatience)));
  ASSERT_TRUE(IsOk(cluster.CheckEndedWell()));
  EXPECT_EQ(LinesOf(cluster.coordinator().Log(), "paused").size(), 1u);
  EXPECT_TRUE(LinesOf(cluster.coordinator().Log(), "worker_lost").empty()) << cluster.coordinator().Log();
  EXPECT_EQ(cluster.Replay()->contributions_merged(), 24 * cluster.Replay()->fragments() * 3);
}

}  // namespace
}  // namespace diloco::testing
