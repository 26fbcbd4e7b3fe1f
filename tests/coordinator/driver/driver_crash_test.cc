// The coordinator is killed at every step of a run and started again: the run ends as if nothing had happened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/coordinator/driver/hand_worker.h"
#include "tests/coordinator/driver/sim_cluster.h"

namespace diloco {
namespace {

struct Outcome {
  std::vector<std::string> digests;
  int turns = 0;
};

// Kills the coordinator after `crash_after` turns; -1: never. With `twice`, again as many turns later.
Outcome RunWithCrash(const std::string& yaml, int crash_after, bool twice) {
  SimCluster cluster(yaml, 2);
  cluster.Start();
  for (int crash = 0; crash_after >= 0 && crash < (twice ? 2 : 1); ++crash) {
    cluster.Run(crash_after);
    cluster.Crash();
    cluster.Start();
  }
  Outcome outcome{.digests = {}, .turns = cluster.Run()};
  for (const auto& worker : cluster.workers) {
    EXPECT_TRUE(worker->done()) << "crash after " << crash_after;
    for (const auto& [key, count] : worker->merged()) {
      EXPECT_EQ(count, 1) << "crash after " << crash_after;
    }
    EXPECT_EQ(worker->merged().size(), 8U) << "crash after " << crash_after;
  }
  const auto& end = cluster.workers[0]->end();
  EXPECT_TRUE(end.has_value());
  for (int i = 0; end && i < end->consensus_digests_size(); ++i) {
    outcome.digests.push_back(end->consensus_digests(i).value());
  }
  EXPECT_TRUE(cluster.coordinator.observer.finished) << "crash after " << crash_after;
  EXPECT_TRUE(cluster.coordinator.observer.fatal.ok());
  return outcome;
}

class DriverCrashTest : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(DriverCrashTest, EveryStepMayBeTheLastOne) {
  const std::string yaml =
      RunYaml(2, 4, GetParam().first, GetParam().second, "rounds: {snapshot_every: 2, lease: 24h}\n");
  const Outcome expected = RunWithCrash(yaml, -1, false);
  ASSERT_EQ(expected.digests.size(), 2U);
  ASSERT_GT(expected.turns, 30);
  for (int after = 0; after <= expected.turns; ++after) {
    EXPECT_EQ(RunWithCrash(yaml, after, /*twice=*/after % 3 == 0).digests, expected.digests) << "after " << after;
    if (HasFailure()) {
      return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, DriverCrashTest,
                         ::testing::Values(std::pair{"fp32", "fp32"}, std::pair{"e3m0", "int8, rounding: stochastic"}));

TEST(DriverRecoveryTest, ChangedRatesGoOnAndOtherMethodsDoNot) {
  SimCluster cluster(RunYaml(2, 4, "fp32", "fp32", "rounds: {snapshot_every: 2}\n"), 2);
  cluster.Start();
  while (cluster.workers[0]->version() < 2) {
    ASSERT_TRUE(cluster.Turn());
  }
  cluster.Crash();

  for (const auto& [yaml, what] : std::vector<std::pair<std::string, std::string>>{
           {RunYaml(2, 4, "bf16", "fp32"), "wire.uplink"},
           {RunYaml(2, 4, "fp32", "int8"), "wire.downlink"},
           {RunYaml(2, 4, "fp32", "fp32", "outer: {optimizer: sgd}\n"), "outer.optimizer"},
           {RunYaml(2, 3, "fp32", "fp32"), "run.rounds says 3; put it back, `dilococtl run stop` ends a run early"},
           {RunYaml(2, 4, "fp32", "fp32").replace(10, 4, "tset"), "run.id"}}) {
    cluster.coordinator.SetYaml(yaml);
    const absl::Status status = cluster.coordinator.Start();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << what;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(what));
  }

  cluster.coordinator.SetYaml(RunYaml(2, 5, "fp32", "fp32", "outer: {rate: 0.125}\n"));
  cluster.Start();
  cluster.Run(500);
  EXPECT_EQ(cluster.coordinator.observer.configuration_changes, 1);
  // A file that says something new is a change like an operator's: the workers hear of the length, and the rate holds
  // from the first round on that none of them could have begun.
  for (const v1::GlobalDeltaCommit& commit : cluster.workers[0]->commits()) {
    EXPECT_EQ(commit.scalars().rate(), commit.round() < 3 ? 0.4F : 0.125F) << commit.round();
  }
  EXPECT_EQ(cluster.workers[0]->version(), 5);
  EXPECT_TRUE(cluster.workers[0]->end().has_value());
}

TEST(DriverRecoveryTest, DescribesRoundsFromBeforeTheStart) {
  SimCluster cluster(RunYaml(2, 4, "fp32", "fp32"), 2);
  cluster.Start();
  while (cluster.workers[0]->version() < 3) {
    ASSERT_TRUE(cluster.Turn());
  }
  cluster.Crash();
  cluster.Start();
  v1::DescribeRoundRequest request;
  request.set_round(1);
  const auto round = cluster.coordinator.Call(&Driver::DescribeRound, request);
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_EQ(round->summary().state(), v1::ROUND_STATE_COMMITTED);
  EXPECT_EQ(round->summary().merged(), 4U);
  EXPECT_EQ(cluster.coordinator.Call(&Driver::GetStatus, v1::GetStatusRequest())->rounds_committed(), 3);
}

TEST(DriverRecoveryTest, RestoredMembersCountBeforeTheyAreHeard) {
  Coordinator coordinator(RunYaml(3, 3, "fp32", "fp32"));
  ASSERT_TRUE(coordinator.Start().ok());
  HandWorker east(&coordinator, "east", 1);
  HandWorker north(&coordinator, "north", 1);
  HandWorker west(&coordinator, "west", 1);
  for (HandWorker* worker : {&east, &north, &west}) {
    ASSERT_TRUE(worker->Join().ok());
  }
  v1::SessionRequest farewell = west.Heartbeat();
  farewell.set_leaving(true);
  west.Send(west.OpenSession(), farewell);
  EXPECT_EQ(coordinator.observer.members, (MemberCounts{.alive = 2, .left = 1}));
  coordinator.Crash();
  coordinator.observer.members = {};
  ASSERT_TRUE(coordinator.Start().ok());
  EXPECT_EQ(coordinator.observer.members, (MemberCounts{.alive = 2, .left = 1}));

  coordinator.clock.Advance(absl::Seconds(15));
  east.Send(east.OpenSession(), east.Heartbeat());
  coordinator.clock.Advance(absl::Seconds(10));
  coordinator.Pump();
  EXPECT_EQ(coordinator.observer.members, (MemberCounts{.alive = 1, .lost = 1, .left = 1}));
  north.Send(north.OpenSession(), north.Heartbeat());
  EXPECT_EQ(coordinator.observer.members, (MemberCounts{.alive = 2, .left = 1}));
}

TEST(DriverRecoveryTest, KnowsTheNewestCheckpoint) {
  SimCluster cluster(RunYaml(2, 4, "fp32", "fp32"), 2);
  cluster.Start();
  const auto save_at = [&cluster](int64_t version) {
    while (cluster.workers[0]->version() < version) {
      ASSERT_TRUE(cluster.Turn());
    }
    ASSERT_TRUE(cluster.coordinator.Call(&Driver::SaveCheckpoint, v1::SaveCheckpointRequest()).ok());
  };
  save_at(1);
  save_at(2);
  const auto before = cluster.coordinator.Call(&Driver::GetStatus, v1::GetStatusRequest());
  ASSERT_EQ(before->checkpoint_version(), 2);
  cluster.Crash();
  // None of these is a checkpoint.
  for (const std::string name : {".round-00000003.partial", "round-00000004", "round-9", "round-0000000x", "notes"}) {
    std::filesystem::create_directory(cluster.coordinator.data() + "/checkpoints/" + name);
  }
  cluster.Start();
  const auto after = cluster.coordinator.Call(&Driver::GetStatus, v1::GetStatusRequest());
  EXPECT_EQ(after->checkpoint_version(), 2);
  EXPECT_EQ(after->checkpoint_path(), before->checkpoint_path());
}

// Nothing reaches a subscriber before its sync returned.
TEST(DriverRecoveryTest, PublishesOnlyWhatIsDurable) {
  SimCluster cluster(RunYaml(1, 2, "fp32", "fp32"), 1);
  cluster.Start();
  Coordinator& coordinator = cluster.coordinator;
  SimWorker& worker = *cluster.workers[0];
  while (worker.consensus().empty()) {
    ASSERT_TRUE(cluster.Turn());
  }
  // Everything but the disk goes on.
  for (int i = 0; i < 200; ++i) {
    coordinator.PumpDriver();
    while (coordinator.pool.RunOne()) {
    }
    worker.Act();
  }
  EXPECT_EQ(coordinator.disk.size(), 1U);  // The store's work goes there one by one.
  EXPECT_TRUE(worker.commits().empty());
  EXPECT_EQ(coordinator.observer.committed, 0);

  ASSERT_TRUE(coordinator.disk.RunOne());
  coordinator.PumpDriver();
  worker.Act();
  ASSERT_EQ(worker.commits().size(), 1U);
  cluster.Run();
  EXPECT_TRUE(worker.done());
}

// The member that completes the run may be lost with the coordinator until its record is durable.
TEST(DriverRecoveryTest, TrainingBeginsOnceEveryMemberIsDurable) {
  SimCluster cluster(RunYaml(2, 2, "fp32", "fp32"), 2);
  cluster.Start();
  Coordinator& coordinator = cluster.coordinator;
  SimWorker& east = *cluster.workers[0];
  SimWorker& west = *cluster.workers[1];
  const auto state = [&coordinator] {
    Answer<v1::GetStatusResponse> answer;
    coordinator.driver->GetStatus(v1::GetStatusRequest(), Into(&answer));
    coordinator.PumpDriver();
    return (**answer)->state();
  };
  for (int i = 0; i < 50; ++i) {
    east.Act();
    coordinator.Pump();
  }
  ASSERT_EQ(state(), v1::RUN_STATE_WAITING_FOR_WORKERS);
  for (int i = 0; i < 50; ++i) {
    west.Act();
    coordinator.PumpDriver();
    while (coordinator.pool.RunOne()) {
    }
  }
  EXPECT_THAT(coordinator.observer.phases, ::testing::Contains(RunPhase::kTraining));
  EXPECT_EQ(state(), v1::RUN_STATE_WAITING_FOR_WORKERS);
  coordinator.Pump();
  EXPECT_EQ(state(), v1::RUN_STATE_TRAINING);
  cluster.Run();
  EXPECT_TRUE(east.done() && west.done());
}

TEST(DriverRecoveryTest, AFailedSyncStopsEverything) {
  SimCluster cluster(RunYaml(1, 3, "fp32", "fp32"), 1);
  cluster.Start();
  Coordinator& coordinator = cluster.coordinator;
  while (cluster.workers[0]->version() < 1) {
    ASSERT_TRUE(cluster.Turn());
  }
  const size_t published = cluster.workers[0]->commits().size();
  coordinator.files.Fail("sync ", 0, 1, absl::UnknownError("the disk is gone"));
  cluster.Run(1000);
  EXPECT_EQ(coordinator.observer.fatal.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(cluster.workers[0]->commits().size(), published);
  EXPECT_EQ(coordinator.Call(&Driver::GetStatus, v1::GetStatusRequest()).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace diloco
