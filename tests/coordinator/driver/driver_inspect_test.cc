// One worker in full, and the checkpoints on the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "absl/strings/str_format.h"

#include "tests/coordinator/driver/hand_worker.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;

// Two workers, a quorum of both, two fragments, in round 0.
class DriverInspectTest : public ::testing::Test {
 protected:
  DriverInspectTest()
      : coordinator_(RunYaml(2, 8, "fp32", "fp32")), east_(&coordinator_, "east", 1), west_(&coordinator_, "west", 2) {
    EXPECT_TRUE(coordinator_.Start().ok());
    EXPECT_TRUE(east_.Join().ok());
    EXPECT_TRUE(east_.Seed(std::vector<float>(11, 1.0F)).ok());
    EXPECT_TRUE(west_.Join().ok());
  }

  absl::StatusOr<v1::DescribeWorkerResponse> Describe(const std::string& worker, const std::string& run = "") {
    v1::DescribeWorkerRequest request;
    request.set_run_id(run);
    request.set_worker_id(worker);
    return coordinator_.Call(&Driver::DescribeWorker, request);
  }
  absl::StatusOr<v1::ListCheckpointsResponse> Checkpoints() {
    return coordinator_.Call(&Driver::ListCheckpoints, v1::ListCheckpointsRequest());
  }

  Coordinator coordinator_;
  HandWorker east_;
  HandWorker west_;
};

TEST_F(DriverInspectTest, SaysWhatEachOpenRoundHasOfAWorker) {
  const auto chunks = west_.Chunks(0, 0, 1);  // Of 20 bytes: 8, 8 and 4.
  ASSERT_TRUE(west_.Upload(chunks[0]).ok());
  ASSERT_TRUE(west_.Upload(chunks[2]).ok());
  ASSERT_TRUE(east_.Contribute(1, 0, 1).ok());
  const auto west = Describe("west");
  ASSERT_TRUE(west.ok()) << west.status();
  EXPECT_EQ(west->summary().worker_id(), "west");
  EXPECT_EQ(west->summary().incarnation(), 2U);
  EXPECT_EQ(west->lease().seconds(), absl::ToInt64Seconds(coordinator_.config().rounds.lease));
  EXPECT_EQ(west->first_round(), 0);
  EXPECT_EQ(west->settled_round(), -1);
  ASSERT_EQ(west->rounds_size(), 2 * coordinator_.config().OpenRounds());
  EXPECT_EQ(west->rounds(0).fragment(), 0U);
  EXPECT_EQ(west->rounds(0).state(), v1::WORKER_ROUND_STATE_RECEIVING);
  EXPECT_EQ(west->rounds(0).received_bytes(), 12U);
  EXPECT_EQ(west->rounds(0).total_bytes(), 20U);
  EXPECT_EQ(west->rounds(1).state(), v1::WORKER_ROUND_STATE_AWAITED);
  EXPECT_EQ(west->rounds(1).total_bytes(), 0U);
  const auto east = Describe("east");
  EXPECT_EQ(east->rounds(0).state(), v1::WORKER_ROUND_STATE_AWAITED);
  EXPECT_EQ(east->rounds(1).state(), v1::WORKER_ROUND_STATE_PRESENT);

  for (HandWorker* worker : {&east_, &west_}) {
    for (int fragment = 0; fragment < 2; ++fragment) ASSERT_TRUE(worker->Contribute(fragment, 0, 1).ok());
  }
  EXPECT_EQ(Describe("west")->settled_round(), 0);
  EXPECT_EQ(Describe("west")->rounds(0).round(), 1);
}

TEST_F(DriverInspectTest, AnAbstentionIsSeen) {
  const HandWorker::Session session = west_.OpenSession();
  v1::SessionRequest heartbeat = west_.Heartbeat();
  heartbeat.add_abstentions()->set_reason("not finite");
  west_.Send(session, heartbeat);
  EXPECT_EQ(Describe("west")->rounds(0).state(), v1::WORKER_ROUND_STATE_ABSTAINED);
}

TEST_F(DriverInspectTest, AnotherWorkerOrRunIsNotFound) {
  const absl::Status worker = Describe("north").status();
  EXPECT_EQ(worker.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(worker.message()), HasSubstr("the run has no worker \"north\""));
  EXPECT_EQ(Describe("west", "other").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(DriverInspectTest, ListsCheckpointsNewestFirst) {
  EXPECT_EQ(Checkpoints()->checkpoints_size(), 0);
  ASSERT_TRUE(coordinator_.Call(&Driver::SaveCheckpoint, v1::SaveCheckpointRequest()).ok());
  for (HandWorker* worker : {&east_, &west_}) {
    for (int fragment = 0; fragment < 2; ++fragment) ASSERT_TRUE(worker->Contribute(fragment, 0, 1).ok());
  }
  const auto saved = coordinator_.Call(&Driver::SaveCheckpoint, v1::SaveCheckpointRequest());
  ASSERT_TRUE(saved.ok()) << saved.status();
  ASSERT_EQ(saved->version(), 1);
  // None of these is a checkpoint.
  const std::string folder = std::filesystem::path(saved->path()).parent_path();
  std::filesystem::create_directory(folder + "/round-00000007");
  std::filesystem::create_directory(folder + "/round-9");
  const auto listed = Checkpoints();
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->checkpoints_size(), 2);
  EXPECT_EQ(listed->checkpoints(0).version(), 1);
  EXPECT_EQ(listed->checkpoints(0).path(), saved->path());
  EXPECT_EQ(listed->checkpoints(0).size_bytes(), saved->size_bytes());
  EXPECT_GE(listed->checkpoints(0).age().seconds(), 0);
  EXPECT_EQ(listed->checkpoints(1).version(), 0);
}

TEST_F(DriverInspectTest, OfManyCheckpointsTheNewestAreListed) {
  const auto saved = coordinator_.Call(&Driver::SaveCheckpoint, v1::SaveCheckpointRequest());
  ASSERT_TRUE(saved.ok()) << saved.status();
  const std::filesystem::path folder = std::filesystem::path(saved->path()).parent_path();
  constexpr int kSaved = static_cast<int>(kMaxListedCheckpoints) + 5;
  for (int version = 1; version < kSaved; ++version) {
    std::filesystem::copy(saved->path(), folder / absl::StrFormat("round-%08d", version));
  }
  const auto listed = Checkpoints();
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->checkpoints_size(), static_cast<int>(kMaxListedCheckpoints));
  EXPECT_EQ(listed->checkpoints(0).version(), kSaved - 1);
}

// Of many fragments with several open rounds each.
TEST(DescribeWorkerTest, OfManyOpenRoundsTheOldestAreSaid) {
  constexpr int kFragments = 600;
  Coordinator coordinator(
      absl::StrFormat("run: {id: test, workers: 1, rounds: 9}\nmethod: eager\ninner_steps: 4\nmax_late: 1\n"
                      "fragments: {count: %d}\n",
                      kFragments));
  ASSERT_TRUE(coordinator.Start().ok());
  ASSERT_GT(kFragments * coordinator.config().OpenRounds(), static_cast<int>(kMaxWorkerRounds));
  HandWorker east(&coordinator, "east", 1);
  v1::JoinRequest join = east.JoinRequest();
  const v1::TensorSpec layer = join.tensors(0);
  join.clear_tensors();
  for (int i = 0; i < kFragments; ++i) {
    v1::TensorSpec* tensor = join.add_tensors();
    *tensor = layer;
    tensor->set_name(absl::StrFormat("layer%d", i));
    tensor->set_layer(i);
  }
  const auto joined = coordinator.Call(&Driver::Join, join);
  ASSERT_TRUE(joined.ok()) << joined.status();
  const std::vector<float> parameters(kFragments * 5, 1.0F);
  v1::SeedRequest seed = east.SeedRequest(parameters);
  *seed.mutable_layout_digest() = joined->layout_digest();
  ASSERT_TRUE(east.SendSeed(seed, parameters).ok());
  v1::DescribeWorkerRequest request;
  request.set_worker_id("east");
  const auto described = coordinator.Call(&Driver::DescribeWorker, request);
  ASSERT_TRUE(described.ok()) << described.status();
  ASSERT_EQ(described->rounds_size(), static_cast<int>(kMaxWorkerRounds));
  for (int i = 0; i < kFragments; ++i) EXPECT_EQ(described->rounds(i).round(), 0);
  EXPECT_EQ(described->rounds(kFragments).round(), 1);
}

}  // namespace
}  // namespace diloco
