// What an operator makes of a lost disk: the next generation of the consensus.
#include <limits>
#include <string>
#include <vector>

#include "common/outer/step_scalars_proto.h"
#include "tests/coordinator/driver/lost_disk_fixture.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;

TEST_F(LostDiskTest, TheRunGoesOnFromTheWorkerThatTheOperatorNames) {
  StartEmpty();
  HandWorker east(&coordinator_, "east", 1);
  HandWorker west(&coordinator_, "west", 1);
  HandWorker north(&coordinator_, "north", 1);
  ASSERT_TRUE(Join(north, std::nullopt).ok());
  ASSERT_TRUE(Join(west, Held(0, {4, 3})).ok());
  ASSERT_TRUE(Join(east, Held(0, {4, 4})).ok());
  const HandWorker::Session session = east.OpenSession();
  east.Send(session, east.Heartbeat());
  EXPECT_FALSE(session.directives->back().give_consensus());

  EXPECT_EQ(Recover("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Recover("south").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Recover("north").status().message(), "worker \"north\" holds no more than the data folder");
  EXPECT_EQ(Recover("west").status().message(),
            "worker \"west\" holds version 4, and \"east\" version 4 is further ahead; --force takes the older one all "
            "the same");
  EXPECT_TRUE(Recover("west", /*force=*/true, /*dry_run=*/true).ok());
  const auto planned = Recover("east", /*force=*/false, /*dry_run=*/true);
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(planned->version(), 4);
  EXPECT_EQ(planned->folder_version(), -1);
  EXPECT_FALSE(session.directives->back().give_consensus());
  EXPECT_EQ(east.SendSeed(ConsensusRequest(east, 4), Consensus()).status().message(),
            "worker \"east\" was not asked for its consensus");

  ASSERT_TRUE(Recover("east").ok());
  EXPECT_TRUE(session.directives->back().give_consensus());
  EXPECT_THAT(Status().reason(), HasSubstr("waiting for that worker to send it"));
  EXPECT_EQ(west.SendSeed(ConsensusRequest(west, 4), Consensus()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const auto given = east.SendSeed(ConsensusRequest(east, 4), Consensus());
  ASSERT_TRUE(given.ok()) << given.status();
  for (int f = 0; f < 2; ++f) {
    EXPECT_EQ(given->consensus_digests(f).value(),
              cluster_.workers[0]->consensus()[static_cast<size_t>(f)].ComputeDigest().Bytes());
  }
  EXPECT_THAT(coordinator_.observer.start_again,
              HasSubstr("version 4 of the consensus was taken from worker \"east\""));

  StartAgain();
  EXPECT_EQ(Status().state(), v1::RUN_STATE_TRAINING);
  EXPECT_EQ(Status().rounds_committed(), 4);
  EXPECT_EQ(Status().snapshot_version(), 4);
  // Nobody is a member any more, and what anybody holds is of another generation.
  EXPECT_EQ(east.Subscribe({4, 4}).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Join(east, Held(0, {4, 4})).status().code(), absl::StatusCode::kAborted);
  HandWorker again(&coordinator_, "east", 2);
  const auto joined = Join(again, std::nullopt);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->generation(), 1U);
  EXPECT_EQ(joined->first_round(), 4);
  const auto snapshot = coordinator_.Call(&Driver::OpenSnapshot, again.Signed<v1::FetchSnapshotRequest>());
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ(snapshot->header.version(), 4);
  EXPECT_EQ(snapshot->header.scalars().SerializeAsString(),
            cluster_.workers[0]->commits().back().scalars().SerializeAsString());

  // And on to the end.
  for (const int64_t round : {4, 5}) {
    for (const int fragment : {0, 1}) {
      ASSERT_EQ(again.Contribute(fragment, round, 1)->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
    }
  }
  EXPECT_EQ(Status().state(), v1::RUN_STATE_ENDED) << Status().reason();
}

// The run was made longer, and only the lost disk knew.
TEST_F(LostDiskTest, AWorkerBeyondTheLengthOfTheFolderHoldsTheRun) {
  StartEmpty();
  HandWorker east(&coordinator_, "east", 1);
  const auto joined = Join(east, Held(0, {40, 40}));
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->directive().state(), v1::RUN_STATE_HOLDING);
  EXPECT_THAT(std::string(Recover("east").status().message()), HasSubstr("`dilococtl run extend --rounds N` first"));
  // A stop would end the run with what the folder has.
  const absl::Status stopped = coordinator_.Call(&Driver::StopRun, v1::StopRunRequest()).status();
  EXPECT_EQ(stopped.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(stopped.message()), HasSubstr("worker \"east\" holds version 40"));
  v1::ExtendRunRequest longer;
  longer.set_rounds(50);
  const auto extended = coordinator_.Call(&Driver::ExtendRun, longer);
  ASSERT_TRUE(extended.ok()) << extended.status();
  const auto recovered = Recover("east");
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_EQ(recovered->version(), 40);
}

TEST_F(LostDiskTest, AConsensusThatIsNoneIsRefusedAndTheRunStaysHeld) {
  StartWithTheCopy();
  HandWorker east(&coordinator_, "east", 1);
  ASSERT_TRUE(Join(east, Held(0, {4, 4})).ok());
  ASSERT_TRUE(Recover("east").ok());
  const auto refused = [&](const v1::SeedRequest& request, const std::vector<float>& values) {
    return east.SendSeed(request, values).status().code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  v1::SeedRequest request = ConsensusRequest(east, 4);
  std::vector<float> values = Consensus();
  values.back() = std::numeric_limits<float>::infinity();
  EXPECT_EQ(refused(request, values), kInvalid);
  values.pop_back();
  EXPECT_EQ(refused(request, values), kInvalid);
  request.set_version(3);  // It said 4.
  EXPECT_EQ(refused(request, Consensus()), kInvalid);
  request.set_version(kRounds + 1);
  EXPECT_EQ(refused(request, Consensus()), kInvalid);
  request.set_version(4);
  request.clear_scalars();
  EXPECT_EQ(refused(request, Consensus()), kInvalid);
  request.mutable_scalars()->set_rate(-1);
  EXPECT_EQ(refused(request, Consensus()), kInvalid);
  EXPECT_EQ(Status().state(), v1::RUN_STATE_HOLDING);
  EXPECT_TRUE(coordinator_.observer.start_again.empty());
  EXPECT_TRUE(east.SendSeed(ConsensusRequest(east, 4), Consensus()).ok());
}

// Restarted, and without a checkpoint: what it held is gone with it.
TEST_F(LostDiskTest, AHoldOutlivesTheWorkerThatCausedIt) {
  StartWithTheCopy();
  HandWorker east(&coordinator_, "east", 1);
  ASSERT_TRUE(Join(east, Held(0, {4, 4})).ok());
  ASSERT_TRUE(Recover("east").ok());
  HandWorker again(&coordinator_, "east", 2);
  ASSERT_TRUE(Join(again, std::nullopt).ok());
  EXPECT_EQ(Status().reason(),
            "worker \"east\" held version 4 of the consensus, this data folder has version 2, and no worker has it any "
            "more; restore the folder, or `dilococtl run recover --discard-workers`");
  EXPECT_EQ(Recover("east").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LostDiskTest, TheFolderIsAcceptedOnlyWhenTheOperatorSaysSo) {
  StartWithTheCopy();
  HandWorker back(&coordinator_, "w0", 100);
  EXPECT_FALSE(back.Subscribe({4, 4}).ok());
  const auto discarded = Discard();
  ASSERT_TRUE(discarded.ok()) << discarded.status();
  EXPECT_EQ(discarded->version(), 2);
  StartAgain();
  EXPECT_EQ(Status().state(), v1::RUN_STATE_TRAINING);
  EXPECT_EQ(Status().rounds_committed(), 2);
  EXPECT_EQ(back.Subscribe({4, 4}).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Join(back, Held(0, {4, 4})).status().code(), absl::StatusCode::kAborted);
  HandWorker again(&coordinator_, "w0", 2);
  const auto joined = Join(again, std::nullopt);
  ASSERT_TRUE(joined.ok());
  EXPECT_EQ(joined->generation(), 1U);
  EXPECT_TRUE(again.Subscribe({2, 2}).ok());
  // A third start still knows it.
  coordinator_.Crash();
  ASSERT_TRUE(coordinator_.Start().ok());
  EXPECT_EQ(Join(back, Held(0, {4, 4})).status().code(), absl::StatusCode::kAborted);
}

TEST_F(LostDiskTest, AnEmptyFolderIsAcceptedAndSeededAnew) {
  StartEmpty();
  HandWorker east(&coordinator_, "east", 1);
  ASSERT_TRUE(Join(east, Held(0, {4, 4})).ok());
  ASSERT_TRUE(Discard().ok());
  StartAgain();
  HandWorker again(&coordinator_, "east", 2);
  const auto joined = Join(again, std::nullopt);
  ASSERT_TRUE(joined.ok());
  EXPECT_EQ(joined->directive().state(), v1::RUN_STATE_SEEDING);
  EXPECT_TRUE(joined->directive().seed());
  EXPECT_TRUE(again.Seed(SimWorker::InitialParameters(11)).ok());
}

// Whoever joins between an order and the start that follows it is in the journal, and no member all the same.
TEST_F(LostDiskTest, WhatIsWrittenBehindANewGenerationIsOfTheOneBefore) {
  StartWithTheCopy();
  HandWorker east(&coordinator_, "east", 1);
  ASSERT_TRUE(Join(east, Held(0, {4, 4})).ok());
  HandWorker west(&coordinator_, "west", 1);
  v1::RecoverConsensusRequest discard;
  discard.set_discard_workers(true);
  coordinator_.driver->RecoverConsensus(discard, [](const auto&) {});
  coordinator_.driver->Join(west.JoinRequest(), [](const auto&) {});
  coordinator_.Pump();
  StartAgain();
  for (HandWorker* worker : {&east, &west}) {
    EXPECT_EQ(worker->Subscribe({2, 2}).status().code(), absl::StatusCode::kAborted);
  }
  HandWorker again(&coordinator_, "west", 2);
  EXPECT_EQ(Join(again, std::nullopt)->generation(), 1U);
  coordinator_.Crash();
  ASSERT_TRUE(coordinator_.Start().ok());
  EXPECT_TRUE(again.Subscribe({2, 2}).ok());
  EXPECT_EQ(west.Subscribe({2, 2}).status().code(), absl::StatusCode::kAborted);
}

// The folder is of an older generation, and went further in it than the worker has in its own. Nothing of the folder's
// global deltas is taken for what follows.
TEST_F(LostDiskTest, TheConsensusOfANewerGenerationMayHaveALowerVersion) {
  StartWithTheCopy();
  HandWorker east(&coordinator_, "east", 1);
  ASSERT_TRUE(Join(east, Held(3, {1, 1})).ok());
  EXPECT_THAT(Status().reason(), HasSubstr("worker \"east\" holds version 1 of generation 3 of the consensus and this "
                                           "data folder has version 2 of generation 0"));
  Evaluate(east, 1);
  EXPECT_GT(Status().evaluations_size(), 0);
  const auto recovered = Recover("east");
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_EQ(recovered->version(), 1);
  EXPECT_EQ(recovered->folder_version(), 2);
  const auto given = east.SendSeed(ConsensusRequest(east, 1), Consensus());
  ASSERT_TRUE(given.ok()) << given.status();
  StartAgain();
  for (int start = 0; start < 2; ++start) {
    EXPECT_EQ(Status().rounds_committed(), 1);
    EXPECT_EQ(Status().snapshot_version(), 1);
    EXPECT_EQ(Status().evaluations_size(), 0) << "they are of another consensus";
    coordinator_.Crash();
    const absl::Status started = coordinator_.Start();
    ASSERT_TRUE(started.ok()) << started;
  }
  HandWorker again(&coordinator_, "east", 2);
  const auto joined = Join(again, std::nullopt);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->generation(), 4U);
  EXPECT_EQ(joined->first_round(), 1);
  for (const int fragment : {0, 1}) {
    ASSERT_EQ(again.Contribute(fragment, 1, 1)->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
  }
  EXPECT_EQ(Status().rounds_committed(), 2);
}

// Else the model of a version that was made once more would be the one from before.
TEST_F(LostDiskTest, CheckpointsOfTwoGenerationsAreApart) {
  StartWithTheCopy();
  const auto save = [this] { return coordinator_.Call(&Driver::SaveCheckpoint, v1::SaveCheckpointRequest()); };
  const auto before = save();
  ASSERT_TRUE(before.ok()) << before.status();
  HandWorker east(&coordinator_, "east", 1);
  ASSERT_TRUE(Join(east, Held(0, {4, 4})).ok());
  ASSERT_TRUE(Discard().ok());
  StartAgain();
  const auto after = save();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->version(), before->version());
  EXPECT_EQ(after->path(), before->path() + "-generation-1");
  EXPECT_EQ(save()->path(), after->path());
  const auto listed = coordinator_.Call(&Driver::ListCheckpoints, v1::ListCheckpointsRequest());
  ASSERT_GE(listed->checkpoints_size(), 2);
  EXPECT_EQ(listed->checkpoints(0).path(), after->path());
  EXPECT_EQ(listed->checkpoints(1).path(), before->path());
  coordinator_.Crash();
  ASSERT_TRUE(coordinator_.Start().ok());
  EXPECT_EQ(Status().checkpoint_path(), after->path());
}

// A newer generation than the folder's is ahead, whatever its versions.
TEST_F(LostDiskTest, AnOlderFolderOfAnEarlierGenerationIsBehind) {
  StartWithTheCopy();
  HandWorker east(&coordinator_, "east", 1);
  ASSERT_TRUE(Join(east, Held(3, {1, 1})).ok());
  EXPECT_EQ(Status().state(), v1::RUN_STATE_HOLDING);
  ASSERT_TRUE(Discard().ok());
  StartAgain();
  HandWorker again(&coordinator_, "east", 2);
  EXPECT_EQ(Join(again, std::nullopt)->generation(), 4U);
}

// Else a new generation might have the number of one that is lost.
TEST(LostDiskMemberTest, AMemberSaysOfWhichGenerationThatIsWhatItHolds) {
  Coordinator coordinator(RunYaml(2, 3, "fp32", "fp32"));
  ASSERT_TRUE(coordinator.Start().ok());
  HandWorker east(&coordinator, "east", 1);
  v1::JoinRequest join = east.JoinRequest();
  *join.mutable_held() = Held(3, {2, 2});
  const auto held = coordinator.Call(&Driver::Join, join);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->generation(), 3U);
  coordinator.Crash();
  ASSERT_TRUE(coordinator.Start().ok());
  EXPECT_FALSE(east.Subscribe({2, 2}, kMaxSubscriberQueueBytes, held->generation()).ok());
  v1::RecoverConsensusRequest discard;
  discard.set_discard_workers(true);
  ASSERT_TRUE(coordinator.Call(&Driver::RecoverConsensus, discard).ok());
  coordinator.Crash();
  ASSERT_TRUE(coordinator.Start().ok());
  HandWorker again(&coordinator, "east", 2);
  EXPECT_EQ(again.Join()->generation(), 4U);
}

// The folder has round 0 of one fragment, and is accepted: the round is not done once more under the same name.
TEST(LostDiskMemberTest, WhatAnAcceptedFolderSettlesStaysSettled) {
  Coordinator coordinator(RunYaml(1, 3, "fp32", "fp32"));
  ASSERT_TRUE(coordinator.Start().ok());
  HandWorker east(&coordinator, "east", 1);
  ASSERT_TRUE(east.Join().ok());
  ASSERT_TRUE(east.Seed(SimWorker::InitialParameters(11)).ok());
  ASSERT_EQ(east.Contribute(0, 0, 1)->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
  coordinator.Crash();
  ASSERT_TRUE(coordinator.Start().ok());
  ASSERT_FALSE(east.Subscribe({2, 2}).ok());
  v1::RecoverConsensusRequest discard;
  discard.set_discard_workers(true);
  ASSERT_TRUE(coordinator.Call(&Driver::RecoverConsensus, discard).ok());
  coordinator.Crash();
  ASSERT_TRUE(coordinator.Start().ok());

  EXPECT_FALSE(east.Subscribe({1, 0}).ok());
  HandWorker again(&coordinator, "east", 2);
  const auto joined = again.Join();
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->generation(), 1U);
  EXPECT_EQ(joined->first_round(), 1);
  EXPECT_EQ(again.Contribute(0, 0, 2)->verdict(), v1::CONTRIBUTION_VERDICT_SETTLED);
}

}  // namespace
}  // namespace diloco
