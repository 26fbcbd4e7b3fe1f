// A coordinator that lost its disk, or was given an older copy of it: the run is held, and who is ahead is found out.
#include <string>
#include <vector>

#include "tests/coordinator/driver/lost_disk_fixture.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;

TEST_F(LostDiskTest, ARunWhoseFolderIsGoneIsHeld) {
  StartEmpty();
  HandWorker east(&coordinator_, "east", 1);
  const auto joined = Join(east, Held(0, {4, 4}));
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->directive().state(), v1::RUN_STATE_HOLDING);
  EXPECT_FALSE(joined->directive().seed());
  const v1::GetStatusResponse status = Status();
  EXPECT_EQ(status.state(), v1::RUN_STATE_HOLDING);
  EXPECT_EQ(
      status.reason(),
      "worker \"east\" holds version 4 of the consensus and this data folder has nothing: the disk was lost, or is "
      "an older copy; restore the folder, or `dilococtl run recover --from east`, or `dilococtl run recover "
      "--discard-workers`");
  EXPECT_EQ(coordinator_.observer.hold, status.reason());
  EXPECT_EQ(coordinator_.observer.hold_cause, HoldCause::kFolderBehind);

  // Nothing is seeded, taken or handed out.
  EXPECT_EQ(east.Seed(SimWorker::InitialParameters(11)).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(east.Subscribe({4, 4}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(coordinator_.Call(&Driver::OpenSnapshot, east.Signed<v1::FetchSnapshotRequest>()).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(east.Upload(east.Chunks(0, 4, 1)[0])->verdict(), v1::CONTRIBUTION_VERDICT_BUSY);
  // A fresh worker does not end the hold.
  HandWorker west(&coordinator_, "west", 1);
  EXPECT_EQ(Join(west, std::nullopt)->directive().state(), v1::RUN_STATE_HOLDING);
  EXPECT_FALSE(Join(west, std::nullopt)->directive().seed());
}

TEST_F(LostDiskTest, VersionsThatNoRunHasAreRefused) {
  StartEmpty();
  HandWorker east(&coordinator_, "east", 1);
  for (const std::vector<int64_t>& versions :
       std::vector<std::vector<int64_t>>{{}, {4}, {4, 4, 4}, {-1, 4}, {4, kMaxRounds + 1}}) {
    const absl::Status refused = Join(east, Held(0, versions)).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("versions that it holds; give one of 0 to 1000000000 for each of 2 fragments"));
  }
  EXPECT_EQ(Join(east, Held(kMaxGeneration + 1, {4, 4})).status().message(),
            "worker \"east\" names generation 1000001 of the consensus; use 0 to 1000000");
  EXPECT_NE(Status().state(), v1::RUN_STATE_HOLDING);
  EXPECT_TRUE(Join(east, Held(kMaxGeneration, {4, kMaxRounds})).ok());
}

// While the disk is full it is that which people are told; they are told of the folder again when it is not any more.
TEST_F(LostDiskTest, AFullDiskDoesNotHideForGoodThatTheFolderIsBehind) {
  StartEmpty();
  HandWorker east(&coordinator_, "east", 1);
  ASSERT_TRUE(Join(east, Held(0, {4, 4})).ok());
  coordinator_.files.Fail("append", 0, 1, absl::ResourceExhaustedError("No space left on device"));
  coordinator_.driver->Join(HandWorker(&coordinator_, "west", 1).JoinRequest(), [](const auto&) {});
  coordinator_.Pump();
  EXPECT_THAT(coordinator_.observer.hold, HasSubstr("No space left on device"));
  coordinator_.clock.Advance(kLongestDiskRetry);
  coordinator_.Pump();
  EXPECT_EQ(coordinator_.observer.hold, Status().reason());
  EXPECT_THAT(coordinator_.observer.hold, HasSubstr("worker \"east\" holds version 4"));
}

TEST_F(LostDiskTest, AMemberOfAnOlderCopyIsFoundOutWithoutJoining) {
  StartWithTheCopy();
  HandWorker back(&coordinator_, "w0", 100);  // As the workers of the cluster are known.
  const absl::Status status = back.Subscribe({4, 4}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("worker \"w0\" holds version 4 of the consensus and this data folder has version 2"));
  EXPECT_EQ(Status().state(), v1::RUN_STATE_HOLDING);
}

// One that was told to take the snapshot says what it holds before it is given an older one.
TEST_F(LostDiskTest, WhoAsksForTheSnapshotIsFoundOutToo) {
  StartWithTheCopy();
  HandWorker back(&coordinator_, "w0", 100);
  const auto fetch = [&](const v1::HeldConsensus& held) {
    auto request = back.Signed<v1::FetchSnapshotRequest>();
    *request.mutable_held() = held;
    return coordinator_.Call(&Driver::OpenSnapshot, request).status();
  };
  EXPECT_TRUE(fetch(Held(0, {2, 2})).ok());
  EXPECT_EQ(Status().state(), v1::RUN_STATE_TRAINING);
  EXPECT_EQ(fetch(Held(1, {1, 1})).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Status().state(), v1::RUN_STATE_HOLDING);
  ASSERT_TRUE(Discard().ok());
  StartAgain();
  HandWorker again(&coordinator_, "w0", 101);
  ASSERT_TRUE(Join(again, std::nullopt).ok());
  auto request = again.Signed<v1::FetchSnapshotRequest>();
  *request.mutable_held() = Held(1, {1, 1});
  EXPECT_EQ(coordinator_.Call(&Driver::OpenSnapshot, request).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(again.Subscribe({2, 2}, kMaxSubscriberQueueBytes, 1).status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(again.Subscribe({2, 2}, kMaxSubscriberQueueBytes, 2).ok());
}

// Its end record would not be that of another consensus.
TEST_F(LostDiskTest, AFolderWhoseRunHasEndedTakesNoConsensus) {
  StartWithTheCopy();
  HandWorker first(&coordinator_, "w0", 100);
  HandWorker second(&coordinator_, "w1", 101);
  for (int64_t round = 2; round < kRounds; ++round) {
    for (const int fragment : {0, 1}) {
      for (HandWorker* worker : {&first, &second}) {
        ASSERT_EQ(worker->Contribute(fragment, round, 1)->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
      }
    }
  }
  ASSERT_EQ(Status().state(), v1::RUN_STATE_ENDED) << Status().reason();
  EXPECT_FALSE(first.Subscribe({1, 1}, kMaxSubscriberQueueBytes, 3).ok());
  const absl::Status refused = Recover("w0").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the run has ended in this data folder"));
}

TEST_F(LostDiskTest, WhatTheFolderHasIsNoReasonToHold) {
  StartWithTheCopy();
  HandWorker back(&coordinator_, "w0", 100);
  EXPECT_TRUE(back.Subscribe({2, 2}).ok());
  HandWorker east(&coordinator_, "east", 1);
  EXPECT_TRUE(Join(east, Held(0, {2, 1})).ok());
  EXPECT_EQ(Status().state(), v1::RUN_STATE_TRAINING);
  EXPECT_EQ(Recover("east").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Discard().status().code(), absl::StatusCode::kFailedPrecondition);
}

// One worker's word does not hold a run that this process has seen from its beginning.
TEST_F(LostDiskTest, ARunThatBeganHereLacksNothing) {
  StartEmpty();
  HandWorker east(&coordinator_, "east", 1);
  ASSERT_TRUE(Join(east, std::nullopt).ok());
  ASSERT_TRUE(east.Seed(SimWorker::InitialParameters(11)).ok());
  EXPECT_EQ(east.Subscribe({1, 0}).status().code(), absl::StatusCode::kOutOfRange);
  HandWorker west(&coordinator_, "west", 1);
  const absl::Status refused = Join(west, Held(0, {4, 4})).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.message(),
            "worker \"west\" holds version 4 of the consensus, and this run, which began here, has version 0; start it "
            "without its checkpoint");
  EXPECT_TRUE(Join(west, std::nullopt).ok());
  EXPECT_EQ(Status().state(), v1::RUN_STATE_TRAINING);
}

// It joined a coordinator that was held for it, and was killed since.
TEST(LostDiskMemberTest, OneThatHoldsMoreIsNoticedThoughTheFolderHasNothing) {
  Coordinator coordinator(RunYaml(2, 3, "fp32", "fp32"));
  ASSERT_TRUE(coordinator.Start().ok());
  HandWorker east(&coordinator, "east", 1);
  ASSERT_TRUE(east.Join().ok());
  coordinator.Crash();
  ASSERT_TRUE(coordinator.Start().ok());
  EXPECT_EQ(east.Subscribe({2, 2}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(coordinator.observer.hold, HasSubstr("worker \"east\" holds version 2"));
}

}  // namespace
}  // namespace diloco
