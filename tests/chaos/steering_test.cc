// An operator steers a run of real processes: what was paused stands still, what was set holds, what was stopped ends
// in good order, and the journal agrees with every digest that any worker ever had.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "absl/time/clock.h"

#include "tests/chaos/cluster.h"
#include "tests/chaos/is_ok.h"

namespace diloco::testing {
namespace {

using nlohmann::json;

int64_t Int(const json& value) { return std::stoll(value.get<std::string>()); }

// The reason that `round list` gives for the oldest round that has not committed.
std::string OldestReason(CoordinatorProcess& coordinator) {
  std::string reason;
  const absl::StatusOr<json> rounds = coordinator.Ctl({"round", "list"});
  if (!rounds.ok()) return rounds.status().ToString();
  for (const json& round : rounds->at("rounds")) {
    if (round.at("state") != "ROUND_STATE_COMMITTED") reason = round.at("reason");
  }
  return reason;
}

// Also of a run that is paused, whose `status` does not exit with 0.
int64_t Committed(CoordinatorProcess& coordinator) {
  const absl::StatusOr<json> rounds = coordinator.Ctl({"round", "list"});
  int64_t oldest_open = -1;
  if (!rounds.ok()) return oldest_open;
  for (const json& round : rounds->at("rounds")) {
    if (round.at("state") != "ROUND_STATE_COMMITTED") oldest_open = Int(round.at("round"));  // They descend.
  }
  return oldest_open;
}

TEST(SteeringTest, PausesResumesSetsExtendsAndStopsARunThatGoesOn) {
  Cluster cluster({.config_yaml = "run: {id: steered, workers: 2, rounds: 1000000}\n"
                                  "method: eager\ninner_steps: 5\nfragments: {count: 2}\n"
                                  "rounds: {heartbeat_interval: 50ms, lease: 20s, snapshot_every: 4}\n"});
  CoordinatorProcess& coordinator = cluster.coordinator();
  ASSERT_TRUE(IsOk(cluster.Start()));
  ASSERT_TRUE(IsOk(cluster.AwaitRounds(2)));

  ASSERT_TRUE(IsOk(coordinator.Ctl({"run", "pause"}).status()));
  const auto is_ready_and_held = [&] { return absl::StrContains(OldestReason(coordinator), "once the run goes on"); };
  ASSERT_TRUE(IsOk(cluster.Await(is_ready_and_held)));
  const int64_t paused_at = Committed(coordinator);
  EXPECT_THAT(std::string(coordinator.Ctl({"status"}).status().message()),
              ::testing::AllOf(::testing::HasSubstr("exit code 6"), ::testing::HasSubstr("paused by an operator")));
  // It is durable, and workers that come back wait all the same.
  coordinator.Kill();
  ASSERT_TRUE(IsOk(cluster.StartCoordinator()));
  ASSERT_TRUE(IsOk(cluster.Await(is_ready_and_held)));
  EXPECT_EQ(Committed(coordinator), paused_at);

  ASSERT_TRUE(IsOk(coordinator.Ctl({"run", "resume"}).status()));
  ASSERT_TRUE(IsOk(cluster.AwaitRounds(paused_at + 3)));
  const absl::StatusOr<json> set = coordinator.Ctl({"run", "set", "outer.rate=0.2", "inner.rate=0.01"});
  ASSERT_TRUE(IsOk(set.status()));
  const int64_t from = Int(set->at("changes").at(0).at("from_round"));
  EXPECT_GT(from, paused_at + 3);
  const absl::StatusOr<json> extended = coordinator.Ctl({"run", "extend", "--rounds", "2000000"});
  ASSERT_TRUE(IsOk(extended.status()));
  EXPECT_EQ(Int(extended->at("rounds")), 2000000);
  ASSERT_TRUE(IsOk(cluster.AwaitRounds(from + 2)));
  coordinator.Kill();
  ASSERT_TRUE(IsOk(cluster.StartCoordinator()));
  const absl::StatusOr<json> again = coordinator.Ctl({"run", "set", "outer.rate=0.2"});
  ASSERT_TRUE(IsOk(again.status()));
  EXPECT_TRUE(again->at("changes").empty()) << "it was forgotten: " << again->dump();

  const absl::StatusOr<json> stopped = coordinator.Ctl({"run", "stop", "--yes"});
  ASSERT_TRUE(IsOk(stopped.status()));
  ASSERT_TRUE(IsOk(cluster.AwaitEnd(2 * kPatience)));
  ASSERT_TRUE(IsOk(cluster.CheckEndedWell()));
  EXPECT_EQ(cluster.RoundsCommitted(), Int(stopped->at("rounds")));
  const absl::StatusOr<json> status = coordinator.Ctl({"status"});
  ASSERT_TRUE(IsOk(status.status()));
  EXPECT_EQ(status->at("state"), "RUN_STATE_ENDED");
  EXPECT_EQ(status->at("checkpoint_version"), stopped->at("rounds"));
}

// One worker has finished its last round, while the run waits for the other: then the run is made longer.
TEST(SteeringTest, AWorkerThatHadFinishedTrainsOnWhenTheRunIsMadeLonger) {
  const TempFolder folder;
  CoordinatorProcess coordinator(folder.path(),
                                 "run: {id: longer, workers: 2, rounds: 2}\nmethod: eager\ninner_steps: 5\n"
                                 "rounds: {heartbeat_interval: 50ms, lease: 60s, grace_window: 0s}\n");
  ASSERT_TRUE(IsOk(coordinator.Start()));
  const auto start = [&](const std::string& id, const std::string& step_milliseconds) {
    absl::StatusOr<Process> worker =
        Process::Start({.arguments = {DILOCO_SYNTHETIC_WORKER, "--coordinator", coordinator.address(), "--id", id,
                                      "--elements", "2000", "--tensors", "4", "--step-ms", step_milliseconds},
                        .output_path = folder.File(id + ".log")});
    EXPECT_TRUE(worker.ok()) << worker.status();
    return *std::move(worker);
  };
  Process fast = start("fast", "5");
  Process slow = start("slow", "600000");
  const auto steps = [&] {
    const absl::StatusOr<json> workers = coordinator.Ctl({"worker", "list"});
    if (!workers.ok()) return int64_t{-1};
    for (const json& worker : workers->at("workers")) {
      if (worker.at("worker_id") == "fast" && worker.contains("progress")) return Int(worker.at("progress").at("step"));
    }
    return int64_t{-1};
  };
  const auto await = [&](const std::function<bool()>& holds) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (!holds())
      ASSERT_LT(absl::Now(), deadline) << steps() << coordinator.Log() << ReadFile(folder.File("fast.log"));
  };
  ASSERT_NO_FATAL_FAILURE(await([&] { return steps() == 10; }));
  ASSERT_TRUE(IsOk(coordinator.Ctl({"run", "extend", "--rounds", "3"}).status()));
  ASSERT_NO_FATAL_FAILURE(await([&] { return steps() > 10; }));
  ASSERT_TRUE(IsOk(coordinator.Ctl({"run", "set", "rounds.quorum=1"}).status()));
  const absl::StatusOr<int> code = fast.Wait(2 * kPatience);
  ASSERT_TRUE(code.ok()) << code.status() << coordinator.Log() << ReadFile(folder.File("fast.log"));
  EXPECT_EQ(*code, 0);
  const absl::StatusOr<json> status = coordinator.Ctl({"status"});
  ASSERT_TRUE(IsOk(status.status()));
  EXPECT_EQ(status->at("state"), "RUN_STATE_ENDED");
  EXPECT_EQ(Int(status->at("rounds_committed")), 3);
}

}  // namespace
}  // namespace diloco::testing
