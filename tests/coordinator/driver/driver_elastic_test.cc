// Rounds while workers come late, slowly, or not at all: what closes them, and what becomes of what came too late.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/driver/hand_worker.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;

// Two workers, a quorum of one: east is always there, west is not.
class DriverElasticTest : public ::testing::Test {
 protected:
  void Start(const std::string& rounds_section, int rounds = 200) {
    coordinator_ = std::make_unique<Coordinator>(
        RunYaml(2, rounds, "fp32", "fp32", "rounds: {quorum: 1, " + rounds_section + "}\n"));
    ASSERT_TRUE(coordinator_->Start().ok());
    east_ = std::make_unique<HandWorker>(coordinator_.get(), "east", 1);
    west_ = std::make_unique<HandWorker>(coordinator_.get(), "west", 2);
    ASSERT_TRUE(east_->Join().ok());
    ASSERT_TRUE(east_->Seed(std::vector<float>(11, 1.0F)).ok());
    ASSERT_TRUE(west_->Join().ok());
  }
  void Contribute(HandWorker* worker, int64_t round) {
    for (int fragment = 0; fragment < 2; ++fragment) {
      const auto answer = worker->Contribute(fragment, round, 1);
      ASSERT_TRUE(answer.ok()) << answer.status();
      ASSERT_EQ(answer->verdict(), v1::CONTRIBUTION_VERDICT_STORED) << answer->DebugString();
    }
  }
  // Both stay members.
  void Pass(absl::Duration time) {
    coordinator_->clock.Advance(time);
    for (HandWorker* worker : {east_.get(), west_.get()}) {
      worker->Send(worker->OpenSession(), worker->Heartbeat());
    }
    coordinator_->Pump();
  }
  v1::DescribeRoundResponse Describe(int64_t round) {
    v1::DescribeRoundRequest request;
    request.set_round(round);
    const auto described = coordinator_->Call(&Driver::DescribeRound, request);
    EXPECT_TRUE(described.ok()) << described.status();
    return described.value_or(v1::DescribeRoundResponse());
  }
  std::string Reason(int64_t round) { return Describe(round).summary().reason(); }

  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<HandWorker> east_;
  std::unique_ptr<HandWorker> west_;
};

TEST_F(DriverElasticTest, TheGraceWindowAdaptsAndTheReasonSaysHow) {
  Start("grace_window: adaptive, grace_floor: 500ms, grace_cap: 10s");
  for (int64_t round = 0; round < 5; ++round) {
    Contribute(east_.get(), round);
    Pass(absl::Seconds(2));
    EXPECT_THAT(Reason(round),
                HasSubstr("(adaptive: the cap, for " + std::to_string(round) + " of 5 waits are known)"));
    Contribute(west_.get(), round);
    EXPECT_EQ(Reason(round), "all 2 present");
  }
  Contribute(east_.get(), 5);
  Pass(absl::Seconds(1));
  EXPECT_EQ(Reason(5),
            "quorum 1/1 reached, waiting 1.0s more for \"west\": grace window of 2.0s (adaptive: median 2.0s, spread "
            "0.0s, 5 rounds)");
  Pass(absl::Seconds(1));
  EXPECT_EQ(Reason(5),
            "quorum 1/1, grace window of 2.0s (adaptive: median 2.0s, spread 0.0s, 5 rounds) over without \"west\"");
  EXPECT_EQ(Describe(5).summary().state(), v1::ROUND_STATE_COMMITTED);
}

// Its sessions may have broken meanwhile: what was left of the leases is not enough to come back.
TEST_F(DriverElasticTest, ACoordinatorThatStoodStillGivesFreshLeases) {
  Start("lease: 20s");
  coordinator_->clock.Advance(absl::Seconds(19));
  coordinator_->Pump();
  const MonotonicTime due = coordinator_->driver->NextWakeUp();
  coordinator_->clock.Advance(absl::Hours(1));
  coordinator_->driver->RunUntilIdle(due);
  coordinator_->clock.Advance(absl::Seconds(19));
  coordinator_->Pump();
  EXPECT_THAT(coordinator_->observer.lost, ::testing::IsEmpty());
  coordinator_->clock.Advance(absl::Seconds(2));
  coordinator_->Pump();
  EXPECT_THAT(coordinator_->observer.lost, ::testing::ElementsAre("east", "west"));
}

TEST_F(DriverElasticTest, ATimeoutEndsTheWaitForTheRest) {
  Start("grace_window: 1h, timeout: 5s");
  Contribute(east_.get(), 0);
  Pass(absl::Seconds(4));
  ASSERT_TRUE(coordinator_->observer.oldest.has_value());
  EXPECT_EQ(coordinator_->observer.oldest->round, 0);
  EXPECT_EQ(coordinator_->observer.oldest->quorum, 1);
  EXPECT_EQ(coordinator_->observer.oldest->present, 1);
  EXPECT_EQ(coordinator_->observer.oldest->grace_window, absl::Hours(1));
  EXPECT_EQ(Reason(0), "quorum 1/1 reached, waiting 1.0s more for \"west\": timeout of 5.0s");
  Pass(absl::Seconds(1));
  EXPECT_EQ(Reason(0), "quorum 1/1, timeout of 5.0s over without \"west\"");
  // Without a quorum there is nothing to time out.
  Pass(absl::Seconds(15));
  EXPECT_EQ(Reason(1), "need 1 more of 2 live workers; waiting for \"east\", \"west\"");
}

TEST_F(DriverElasticTest, WhatCameTooLateIsMergedAndTheRoundThatTookItSaysSo) {
  Start("grace_window: 0s, late: merge");
  Contribute(east_.get(), 0);
  Contribute(west_.get(), 0);
  Contribute(east_.get(), 1);
  const v1::DescribeRoundResponse round = Describe(1);
  EXPECT_EQ(round.summary().merged_late(), 2U);
  ASSERT_EQ(round.fragments(0).settled_size(), 2);
  EXPECT_EQ(round.fragments(0).settled(1).id().worker_id(), "west");
  EXPECT_EQ(round.fragments(0).settled(1).id().round(), 0);
  EXPECT_EQ(round.fragments(0).settled(1).settlement(), v1::SETTLEMENT_MERGED);
  using Settled = std::map<std::pair<v1::Settlement, bool>, int>;
  EXPECT_EQ(coordinator_->observer.settled,
            (Settled{{{v1::SETTLEMENT_MERGED, false}, 4}, {{v1::SETTLEMENT_MERGED, true}, 2}}));
}

TEST_F(DriverElasticTest, WhatCameTooLateIsDroppedAndTheRoundThatSettledItSaysWhy) {
  Start("grace_window: 0s, late: drop");
  Contribute(east_.get(), 0);
  Contribute(west_.get(), 0);
  Contribute(east_.get(), 1);
  const v1::DescribeRoundResponse round = Describe(1);
  EXPECT_EQ(round.summary().dropped(), 2U);
  ASSERT_EQ(round.fragments(1).settled_size(), 2);
  EXPECT_EQ(round.fragments(1).settled(1).id().round(), 0);
  EXPECT_EQ(round.fragments(1).settled(1).settlement(), v1::SETTLEMENT_DROPPED_LATE);
  EXPECT_EQ((coordinator_->observer.settled[{v1::SETTLEMENT_DROPPED_LATE, true}]), 2);
}

// Each round has a snapshot, and reading one takes five of them. What follows it must still be there.
TEST_F(DriverElasticTest, AJoinerWhoseDownloadTakesFiveRoundsCatchesUp) {
  Start("grace_window: 0s, snapshot_every: 1");
  int64_t round = 0;
  for (; round < 3; ++round) Contribute(east_.get(), round);
  HandWorker north(coordinator_.get(), "north", 3);
  ASSERT_EQ(north.Join()->first_round(), 4);
  const auto snapshot = coordinator_->Call(&Driver::OpenSnapshot, north.Signed<v1::FetchSnapshotRequest>());
  ASSERT_TRUE(snapshot.ok());
  const int64_t version = snapshot->header.version();
  EXPECT_EQ(version, 3);
  for (; round < 8; ++round) Contribute(east_.get(), round);
  ASSERT_EQ(coordinator_->observer.snapshots.back(), 8);
  const auto queue = north.Subscribe({version, version});
  ASSERT_TRUE(queue.ok()) << queue.status();
  bool ended = false;
  EXPECT_EQ(Drain(queue->get(), &ended).size(), 5U * 2 * 3);  // Chunk, list and commit of each fragment.
  // A full round of its own later it takes part: late at first, then in the oldest open round.
  ASSERT_EQ(north.Contribute(0, 4, 1)->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
  Contribute(&north, round);
  Contribute(east_.get(), round);
  EXPECT_THAT(Describe(round).fragments(0).present(), ::testing::Contains("north"));
  // Nobody reads any more, so that nothing is kept for it.
  for (++round; round < 12; ++round) Contribute(east_.get(), round);
  EXPECT_EQ(west_->Subscribe({version, version}).status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(DriverElasticTest, NothingIsKeptForAReaderThatIsGoneOrTooFarBehind) {
  Start("grace_window: 0s, snapshot_every: 1");
  int64_t round = 0;
  for (; round < 2; ++round) Contribute(east_.get(), round);
  const auto read = [&](HandWorker* worker) {
    return coordinator_->Call(&Driver::OpenSnapshot, worker->Signed<v1::FetchSnapshotRequest>())->header.version();
  };
  ASSERT_EQ(read(west_.get()), 2);
  for (; round <= 2 + kMaxCatchUpRounds; ++round) Contribute(east_.get(), round);
  EXPECT_TRUE(west_->Subscribe({2, 2}).ok()) << "at the limit";
  ASSERT_EQ(read(west_.get()), round);
  const int64_t read_at = round;
  for (; round <= read_at + kMaxCatchUpRounds + 1; ++round) Contribute(east_.get(), round);
  EXPECT_EQ(west_->Subscribe({read_at, read_at}).status().code(), absl::StatusCode::kOutOfRange) << "behind it";

  ASSERT_EQ(read(west_.get()), round);
  const int64_t lost_at = round;
  coordinator_->clock.Advance(absl::Seconds(21));
  for (; round < lost_at + 3; ++round) Contribute(east_.get(), round);
  EXPECT_EQ(west_->Subscribe({lost_at, lost_at}).status().code(), absl::StatusCode::kOutOfRange) << "lost";
}

}  // namespace
}  // namespace diloco
