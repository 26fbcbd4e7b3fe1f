// Whole workers against a fake coordinator: what they survive, and what they say when they do not.
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/worker/loop/worker_runner.h"
#include "worker/loop/run_worker.h"

namespace diloco {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kRounds = 6;

std::string Yaml(const std::string& method) {
  return absl::StrFormat(
      "run: {id: test, workers: 1, rounds: %d}\nmethod: %s\ninner_steps: 2\n%s"
      "fragments: {count: 2}\nwire: {uplink: fp32, downlink: fp32, connections: 2}\n",
      kRounds, method, method == "eager" ? "max_late: 0\n" : "");
}

QuadraticTrainer::Options World() {
  return {.a = {0.3, 0.5, 0.7, 0.9}, .c = {1, -1, 2, -2}, .start = {0, 0.5, 1, 1.5}, .tensors = 2};
}

std::unique_ptr<RunningWorker> Start(const FakeCoordinator& coordinator, const QuadraticTrainer::Options& world) {
  return std::make_unique<RunningWorker>(RunningWorker::Options(coordinator.address(), "solo"), world);
}

// The run that nothing disturbs.
std::vector<RunningWorker::Boundary> Undisturbed(const std::string& method) {
  FakeCoordinator coordinator(Yaml(method));
  const auto worker = Start(coordinator, World());
  EXPECT_EQ(worker->Finish(), absl::OkStatus());
  return worker->boundaries();
}

void ExpectSameTheta(const std::vector<RunningWorker::Boundary>& a, const std::vector<RunningWorker::Boundary>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].theta, b[i].theta) << "round " << i;
  }
}

class FaultsTest : public testing::TestWithParam<std::string> {};

TEST_P(FaultsTest, CoordinatorThatVanishesChangesNothing) {
  FakeCoordinator coordinator(Yaml(GetParam()));
  QuadraticTrainer::Options world = World();
  world.on_step = [&coordinator](int64_t step) {
    if (step == 4 || step == 7) {
      coordinator.Stop();
      coordinator.Start(true);
    }
  };
  const auto worker = Start(coordinator, world);
  ASSERT_EQ(worker->Finish(), absl::OkStatus());
  ExpectSameTheta(worker->boundaries(), Undisturbed(GetParam()));
  EXPECT_GT(worker->last().Reconnects(), 0);
}

TEST_P(FaultsTest, DamagedChunksAreSentAgain) {
  for (const bool silent : {false, true}) {
    FakeCoordinator coordinator(Yaml(GetParam()));
    coordinator.SetFaults({.damaged_uploads = 3, .damaged_are_silent = silent, .damaged_downloads = 2, .too_early = 2});
    const auto worker = Start(coordinator, World());
    ASSERT_EQ(worker->Finish(), absl::OkStatus());
    ExpectSameTheta(worker->boundaries(), Undisturbed(GetParam()));
  }
}

TEST_P(FaultsTest, ResyncTakesTheSnapshotAndGoesOn) {
  FakeCoordinator coordinator(Yaml(GetParam()));
  coordinator.Hold(true);
  const auto worker = Start(coordinator, World());
  ASSERT_TRUE(coordinator.Await([](const FakeCoordinator& c) { return c.stored("solo", 0) == 2; }));
  coordinator.ForceResync();
  coordinator.Hold(false);
  ASSERT_EQ(worker->Finish(), absl::OkStatus());
  EXPECT_EQ(coordinator.version(), kRounds);
  EXPECT_EQ(worker->last().version, kRounds);
}

TEST_P(FaultsTest, OuterGradientThatIsNotFiniteHeals) {
  FakeCoordinator coordinator(Yaml(GetParam()));
  QuadraticTrainer::Options world = World();
  world.nan_at_step = 5;  // In round 2.
  const auto worker = Start(coordinator, world);
  ASSERT_EQ(worker->Finish(), absl::OkStatus());
  EXPECT_EQ(coordinator.stored("solo", 2), 0);
  EXPECT_EQ(coordinator.stored("solo", 3), 2);
  EXPECT_EQ(worker->last().outer_gradients_not_finite, 1);
  std::set<std::pair<uint32_t, int64_t>> abstained;
  for (const v1::SessionRequest& heartbeat : coordinator.heartbeats()) {
    for (const v1::Abstention& abstention : heartbeat.abstentions()) {
      abstained.emplace(abstention.fragment(), abstention.round());
    }
  }
  EXPECT_THAT(abstained, testing::ElementsAre(std::pair(0u, 2), std::pair(1u, 2)));
  EXPECT_TRUE(worker->last().abstentions.empty());
  const std::vector<RunningWorker::Boundary> boundaries = worker->boundaries();
  EXPECT_FALSE(boundaries[2].finite);
  for (const RunningWorker::Boundary& boundary : boundaries) {
    for (const float x : boundary.theta) {
      EXPECT_TRUE(std::isfinite(x)) << "round " << boundary.round;
    }
  }
}

// What was trained on for an outer gradient that is not sent counts for no later one.
TEST_P(FaultsTest, TokensOfARoundThatIsNotSentAreLost) {
  FakeCoordinator coordinator(Yaml(GetParam()) + "outer: {weights: tokens}\n");
  QuadraticTrainer::Options world = World();
  world.nan_at_step = 5;  // In round 2.
  world.tokens = 7;
  ASSERT_EQ(Start(coordinator, world)->Finish(), absl::OkStatus());
  for (int64_t round = 0; round < kRounds; ++round) {
    for (const uint32_t fragment : {0, 1}) {
      EXPECT_EQ(coordinator.weight("solo", fragment, round), round == 2 ? 0 : 7 * 2) << round;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, FaultsTest, testing::Values("diloco", "delayed", "eager"),
                         [](const auto& test) { return test.param; });

TEST(RunWorkerFarewellTest, CoordinatorThatGoesFirstIsNotWaitedFor) {
  FakeCoordinator coordinator(Yaml("eager"));
  coordinator.SetFaults({.gone_when_left = true});
  EXPECT_EQ(Start(coordinator, World())->Finish(), absl::OkStatus());
  EXPECT_EQ(coordinator.evaluations().back().version(), kRounds);
}

TEST(RunWorkerErrorsTest, ForeignConsensusStopsTheWorker) {
  FakeCoordinator coordinator(Yaml("eager"));
  coordinator.SetFaults({.wrong_consensus_digest = true});
  const absl::Status status = Start(coordinator, World())->Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("fragment"), HasSubstr("version 0")));
}

TEST(RunWorkerErrorsTest, IdInUse) {
  FakeCoordinator coordinator(Yaml("eager"));
  coordinator.SetFaults({.id_in_use = true});
  const absl::Status status = Start(coordinator, World())->Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"solo\""));
}

TEST(RunWorkerErrorsTest, AnotherRun) {
  FakeCoordinator coordinator(Yaml("eager"));
  WorkerOptions options = RunningWorker::Options(coordinator.address(), "solo");
  options.run_id = "other";
  EXPECT_EQ(RunningWorker(options, World()).Finish().code(), absl::StatusCode::kNotFound);
}

TEST(RunWorkerErrorsTest, CoordinatorThatIsNotThere) {
  FakeCoordinator coordinator(Yaml("eager"));
  coordinator.Stop();
  WorkerOptions options = RunningWorker::Options(coordinator.address(), "solo");
  options.connect_timeout = absl::Milliseconds(300);
  const absl::Status status = RunningWorker(options, World()).Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("cannot reach the coordinator at " + coordinator.address()),
                    HasSubstr("check the address and that it runs")));
}

TEST(RunWorkerErrorsTest, CoordinatorThatStaysAway) {
  FakeCoordinator coordinator(Yaml("eager"));
  QuadraticTrainer::Options world = World();
  world.on_step = [&coordinator](int64_t step) {
    if (step == 4) {
      coordinator.Stop();
    }
  };
  WorkerOptions options = RunningWorker::Options(coordinator.address(), "solo");
  options.give_up_after = absl::Milliseconds(500);
  const absl::Status status = RunningWorker(options, world).Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no word from the coordinator at " + coordinator.address()));
}

TEST(RunWorkerErrorsTest, BadWorkerId) {
  WorkerOptions options = RunningWorker::Options("127.0.0.1:1", "not a name");
  EXPECT_EQ(RunningWorker(options, World()).Finish().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RunWorkerErrorsTest, InterruptEndsAWait) {
  FakeCoordinator coordinator(Yaml("diloco"));
  coordinator.Hold(true);
  const auto worker = Start(coordinator, World());
  ASSERT_TRUE(coordinator.Await([](const FakeCoordinator& c) { return c.stored("solo", 0) == 2; }));
  worker->Interrupt();
  EXPECT_EQ(worker->Finish().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace diloco
