// The driver's named limits, each hit by what a peer may send.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_format.h"

#include "tests/coordinator/driver/hand_worker.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;

class DriverBoundsTest : public ::testing::Test {
 protected:
  explicit DriverBoundsTest(int rounds = 3) : coordinator_(RunYaml(1, rounds, "fp32", "fp32")) {
    EXPECT_TRUE(coordinator_.Start().ok());
  }

  void SeedFrom(HandWorker* worker) {
    ASSERT_TRUE(worker->Join().ok());
    ASSERT_TRUE(worker->Seed(std::vector<float>(11, 1.0F)).ok());
  }

  Coordinator coordinator_;
};

TEST_F(DriverBoundsTest, ARequestThatFindsTheQueueFullIsTurnedAwayAndTheOthersAreAnswered) {
  size_t answered = 0;
  const auto ask = [&](Reply<v1::GetStatusResponse> reply) { coordinator_.driver->GetStatus({}, std::move(reply)); };
  for (size_t i = 0; i < kMaxDriverQueue; ++i) {
    ask([&answered](const absl::StatusOr<v1::GetStatusResponse>& response) { answered += response.ok() ? 1 : 0; });
  }
  absl::Status turned_away;
  ask([&turned_away](const absl::StatusOr<v1::GetStatusResponse>& response) { turned_away = response.status(); });
  EXPECT_EQ(turned_away.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(turned_away.message()), HasSubstr("too many requests waiting; try again later"));
  EXPECT_EQ(answered, 0U);
  coordinator_.Pump();
  EXPECT_EQ(answered, kMaxDriverQueue);
  EXPECT_TRUE(coordinator_.Call(&Driver::GetStatus, v1::GetStatusRequest()).ok());
}

TEST_F(DriverBoundsTest, TheMemberAboveTheLimitIsTurnedAway) {
  const auto join = [this](int i, uint64_t incarnation) {
    return HandWorker(&coordinator_, absl::StrFormat("w%d", i), incarnation).Join().status();
  };
  for (int i = 0; i < kMaxWorkers; ++i) ASSERT_TRUE(join(i, 1).ok());
  const absl::Status turned_away = join(kMaxWorkers, 1);
  EXPECT_EQ(turned_away.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(turned_away.message()),
              HasSubstr("the run has had 256 members, which is its limit; join again "
                        "under one of their ids"));
  EXPECT_TRUE(join(0, 2).ok());
}

TEST_F(DriverBoundsTest, AContributionInTooManyChunksIsRefused) {
  // One byte a chunk: more chunks than are allowed takes more elements than the two small fragments have.
  HandWorker east(&coordinator_, "east", 1);
  v1::JoinRequest join = east.JoinRequest();
  join.mutable_tensors()->DeleteSubrange(1, join.tensors_size() - 1);
  constexpr int64_t kElements = kMaxUploadChunks / sizeof(float) + 1;
  join.mutable_tensors(0)->mutable_shape()->Clear();
  join.mutable_tensors(0)->add_shape(kElements);
  const absl::StatusOr<v1::JoinResponse> joined = coordinator_.Call(&Driver::Join, join);
  ASSERT_TRUE(joined.ok()) << joined.status();

  const std::vector<float> parameters(kElements, 1.0F);
  v1::SeedRequest seed = east.SeedRequest(parameters);
  *seed.mutable_layout_digest() = joined->layout_digest();
  ASSERT_TRUE(east.SendSeed(seed, parameters).ok());

  v1::UploadRequest chunk = east.Chunks(0, 0, 1.0F, 8).front();
  *chunk.mutable_layout_digest() = joined->layout_digest();
  chunk.set_element_count(kElements);
  chunk.set_contribution_bytes(kElements * sizeof(float));
  chunk.set_chunk_bytes(1);
  const absl::StatusOr<v1::UploadResponse> refused = coordinator_.Call(&Driver::Upload, chunk);
  ASSERT_TRUE(refused.ok()) << refused.status();
  EXPECT_EQ(refused->verdict(), v1::CONTRIBUTION_VERDICT_REFUSED);
  EXPECT_THAT(refused->reason(), HasSubstr("65536 chunks are allowed"));
}

class DriverEvaluationBoundsTest : public DriverBoundsTest {
 protected:
  DriverEvaluationBoundsTest() : DriverBoundsTest(100) {}
};

TEST_F(DriverEvaluationBoundsTest, TheNewestEvaluationsAreKeptAlsoOverARestart) {
  HandWorker east(&coordinator_, "east", 1);
  SeedFrom(&east);
  const HandWorker::Session session = east.OpenSession();
  constexpr int kReported = kMaxEvaluations + 10;
  for (int version = 0; version < kReported; ++version) {
    for (int fragment = 0; version > 0 && fragment < 2; ++fragment) {
      ASSERT_EQ(east.Contribute(fragment, version - 1, 0)->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
    }
    v1::SessionRequest heartbeat = east.Heartbeat();
    v1::Evaluation* evaluation = heartbeat.add_evaluations();
    evaluation->set_version(version);
    evaluation->set_loss(1.0);
    evaluation->set_tokens(1);
    east.Send(session, heartbeat);
  }
  for (const bool restarted : {false, true}) {
    if (restarted) {
      coordinator_.Crash();
      ASSERT_TRUE(coordinator_.Start().ok());
    }
    const absl::StatusOr<v1::GetStatusResponse> status = coordinator_.Call(&Driver::GetStatus, v1::GetStatusRequest());
    ASSERT_TRUE(status.ok()) << status.status();
    ASSERT_EQ(status->evaluations_size(), kMaxEvaluations);
    EXPECT_EQ(status->evaluations(0).version(), kReported - 1);
    EXPECT_EQ(status->evaluations(kMaxEvaluations - 1).version(), kReported - kMaxEvaluations);
  }
}

}  // namespace
}  // namespace diloco
