// Whole workers against a fake coordinator: what they compute.
#include "worker/loop/run_worker.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/worker/loop/worker_runner.h"

namespace diloco {
namespace {

constexpr int kSize = 6;
constexpr int kRounds = 6;
constexpr int kInnerSteps = 3;
constexpr double kInnerRate = 0.1;

std::string Yaml(const std::string& method, int workers, const std::string& more = "") {
  return absl::StrFormat(
      "run: {id: test, workers: %d, rounds: %d}\n"
      "method: %s\n"
      "inner_steps: %d\n"
      "fragments: {count: 2}\nwire: {uplink: fp32, downlink: fp32, connections: 2}\n"
      "%s",
      workers, kRounds, method, kInnerSteps, more);
}

QuadraticTrainer::Options World(int worker) {
  QuadraticTrainer::Options world = QuadraticTrainer::World(worker, kSize);
  world.rate = kInnerRate;
  world.tensors = 3;
  return world;
}

using Vector = std::vector<double>;

// The direct forms of the methods in lockstep, in double precision, one coordinate at a time (arXiv 2311.08105
// algorithm 1; arXiv 2502.12996 algorithms 2 and 3). Returns theta[round][worker].
std::vector<std::vector<Vector>> Direct(const std::string& method, int workers, double rate, double momentum) {
  std::vector<std::vector<Vector>> history(kRounds, std::vector<Vector>(static_cast<size_t>(workers), Vector(kSize)));
  for (size_t i = 0; i < kSize; ++i) {
    Vector theta(static_cast<size_t>(workers)), buffer(theta), stale(theta);
    double stale_mean = 0;
    for (size_t m = 0; m < theta.size(); ++m) {
      theta[m] = World(0).start[i];
    }
    for (size_t t = 0; t < kRounds; ++t) {
      Vector delta(theta.size());
      double mean = 0;
      for (size_t m = 0; m < theta.size(); ++m) {
        const QuadraticTrainer::Options world = World(static_cast<int>(m));
        const double after = world.c[i] + (theta[m] - world.c[i]) * std::pow(1 - kInnerRate * world.a[i], kInnerSteps);
        delta[m] = theta[m] - after;
        mean += delta[m] / workers;
      }
      for (size_t m = 0; m < theta.size(); ++m) {
        const double gradient = method == "diloco"    ? mean
                                : method == "delayed" ? stale_mean
                                                      : stale_mean + (delta[m] - stale[m]) / workers;
        buffer[m] = momentum * buffer[m] + gradient;
        theta[m] -= rate * (gradient + momentum * buffer[m]);
        history[t][m][i] = theta[m];
      }
      stale = delta;
      stale_mean = mean;
    }
  }
  return history;
}

void ExpectNear(const std::vector<RunningWorker::Boundary>& boundaries,
                const std::vector<std::vector<Vector>>& expected, size_t worker) {
  ASSERT_EQ(boundaries.size(), expected.size());
  for (size_t t = 0; t < expected.size(); ++t) {
    double largest = 0;
    for (const double x : expected[t][worker]) {
      largest = std::max(largest, std::abs(x));
    }
    EXPECT_EQ(boundaries[t].round, static_cast<int64_t>(t));
    for (size_t i = 0; i < kSize; ++i) {
      EXPECT_NEAR(boundaries[t].theta[i], expected[t][worker][i], 2e-6 * largest)
          << "round " << t << " worker " << worker << " element " << i;
    }
  }
}

class LockstepTest : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(LockstepTest, FollowsTheDirectForm) {
  const auto& [method, workers] = GetParam();
  FakeCoordinator coordinator(
      Yaml(method, workers, method == "eager" ? "max_late: 0\nlookahead: {lambda: share}\n" : ""));
  std::vector<std::unique_ptr<RunningWorker>> running;
  for (int m = 0; m < workers; ++m) {
    // Seeded by whoever joins first: every trainer starts from the same parameters.
    running.push_back(std::make_unique<RunningWorker>(
        RunningWorker::Options(coordinator.address(), absl::StrFormat("w%d", m)), World(m)));
  }
  for (const auto& worker : running) {
    EXPECT_EQ(worker->Finish(), absl::OkStatus());
  }
  const auto expected = Direct(method, workers, 0.4, 0.9);
  for (int m = 0; m < workers; ++m) {
    const auto worker = static_cast<size_t>(m);
    ExpectNear(running[worker]->boundaries(), expected, worker);
    for (const RunningWorker::Boundary& boundary : running[worker]->boundaries()) {
      EXPECT_EQ(boundary.version, method == "diloco" ? boundary.round + 1 : boundary.round);
      EXPECT_EQ(boundary.next_round, boundary.round + 1);
      EXPECT_EQ(boundary.blocked_seconds > 0, boundary.waited);
    }
    // Consensus bits: every version of every fragment, the last of them the coordinator's.
    const auto consensus = running[worker]->consensus();
    EXPECT_EQ(consensus.size(), 2u * (kRounds + 1));
    EXPECT_THAT(consensus, testing::UnorderedElementsAreArray(running[0]->consensus()));
    for (const auto& [fragment, version, digest] : consensus) {
      if (version == kRounds) {
        EXPECT_EQ(digest, coordinator.Digests()[static_cast<size_t>(fragment)]);
      }
    }
    const WorkerStatus last = running[worker]->last();
    EXPECT_EQ(last.state, "done");
    EXPECT_EQ(last.step, kRounds * kInnerSteps);
    EXPECT_EQ(last.session_steps, kRounds * kInnerSteps);
    EXPECT_EQ(last.tokens, static_cast<uint64_t>(kRounds * kInnerSteps));
    EXPECT_EQ(last.version, kRounds);
    EXPECT_EQ(last.Staleness(), 0);
    EXPECT_EQ(last.rounds_skipped, 0);
    EXPECT_EQ(last.uploaded_bytes, kRounds * kSize * sizeof(float));
    EXPECT_EQ(last.downloaded_bytes, kRounds * kSize * sizeof(float));
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, LockstepTest,
                         testing::Combine(testing::Values("diloco", "delayed", "eager"), testing::Values(1, 3)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + std::to_string(std::get<1>(test.param));
                         });

TEST(RunWorkerTest, OneWorkerWithPlainOuterStepIsPlainTraining) {
  FakeCoordinator coordinator(Yaml("diloco", 1, "outer: {optimizer: sgd, rate: 1}\n"));
  RunningWorker worker(RunningWorker::Options(coordinator.address(), "solo"), World(0));
  ASSERT_EQ(worker.Finish(), absl::OkStatus());
  const QuadraticTrainer::Options world = World(0);
  const std::vector<float> theta = worker.boundaries().back().theta;
  for (size_t i = 0; i < kSize; ++i) {
    const double expected =
        world.c[i] + (world.start[i] - world.c[i]) * std::pow(1 - kInnerRate * world.a[i], kRounds * kInnerSteps);
    EXPECT_NEAR(theta[i], expected, 1e-6);
  }
}

TEST(RunWorkerTest, RandomRoundingWithErrorFeedbackRepeatsBitForBit) {
  const auto consensus_of = [](int seed) {
    FakeCoordinator coordinator(
        absl::StrFormat("run: {id: test, workers: 1, rounds: %d, seed: %d}\n"
                        "method: eager\nmax_late: 0\ninner_steps: %d\nfragments: {count: 2}\n"
                        "wire: {uplink: int4, downlink: fp32, rounding: stochastic, error_feedback: uplink}\n",
                        kRounds, seed, kInnerSteps));
    WorkerOptions options = RunningWorker::Options(coordinator.address(), "solo");
    options.chunk_bytes = 64;
    RunningWorker worker(options, World(0));
    EXPECT_EQ(worker.Finish(), absl::OkStatus());
    std::vector<std::tuple<int, int64_t, Digest>> consensus = worker.consensus();
    std::sort(consensus.begin(), consensus.end());  // Fragments may overtake each other.
    EXPECT_EQ(consensus.size(), 2 * (kRounds + 1));
    return consensus;
  };
  EXPECT_EQ(consensus_of(1), consensus_of(1));
  EXPECT_NE(consensus_of(1), consensus_of(2));  // The trainer does not use the seed; rounding does.
}

// With plain outer steps the consensus becomes the mean of where the workers end, weighted by their tokens.
TEST(RunWorkerTest, AveragesWeighWorkersByTheirTokens) {
  FakeCoordinator coordinator(Yaml("diloco", 2, "outer: {optimizer: sgd, rate: 1, weights: tokens}\n"));
  std::vector<std::unique_ptr<RunningWorker>> running;
  const double tokens[2] = {1, 3};
  for (const int m : {0, 1}) {
    QuadraticTrainer::Options world = World(m);
    world.tokens = static_cast<uint64_t>(tokens[m]);
    running.push_back(std::make_unique<RunningWorker>(
        RunningWorker::Options(coordinator.address(), absl::StrFormat("w%d", m)), world));
  }
  for (const auto& worker : running) ASSERT_EQ(worker->Finish(), absl::OkStatus());
  for (size_t i = 0; i < kSize; ++i) {
    double theta = World(0).start[i];
    for (int t = 0; t < kRounds; ++t) {
      double mean = 0;
      for (const int m : {0, 1}) {
        const QuadraticTrainer::Options world = World(m);
        const double decay = std::pow(1 - kInnerRate * world.a[i], kInnerSteps);
        mean += tokens[m] / 4 * (world.c[i] + (theta - world.c[i]) * decay);
      }
      theta = mean;
    }
    EXPECT_NEAR(running[0]->boundaries().back().theta[i], theta, 1e-6);
  }
}

TEST(RunWorkerTest, EvaluatesTheConsensusEveryFewRoundsAndAtTheEnd) {
  FakeCoordinator coordinator(Yaml("diloco", 1, "eval: {every: 4}\n"));
  RunningWorker worker(RunningWorker::Options(coordinator.address(), "solo"), World(0));
  ASSERT_EQ(worker.Finish(), absl::OkStatus());
  const std::vector<v1::Evaluation> evaluations = coordinator.evaluations();
  ASSERT_EQ(evaluations.size(), 2u);
  EXPECT_EQ(evaluations[0].version(), 4);
  EXPECT_EQ(evaluations[1].version(), kRounds);
  EXPECT_EQ(evaluations[1].tokens(), static_cast<uint64_t>(kSize));
  EXPECT_EQ(evaluations[1].worker_id(), "solo");
  const QuadraticTrainer::Options world = World(0);
  double loss = 0;
  const std::vector<float> consensus = coordinator.ConsensusParameters();
  for (size_t i = 0; i < kSize; ++i) {
    loss += 0.5 * world.a[i] * std::pow(consensus[i] - world.c[i], 2);
  }
  EXPECT_NEAR(evaluations[1].loss(), loss, 1e-9);
  EXPECT_EQ(worker.last().evaluation_version, kRounds);
}

TEST(RunWorkerTest, TrainerWithoutHeldOutDataEndsTheRunAllTheSame) {
  FakeCoordinator coordinator(Yaml("diloco", 1, "eval: {every: 2}\n"));
  QuadraticTrainer::Options world = World(0);
  world.evaluates = false;
  RunningWorker worker(RunningWorker::Options(coordinator.address(), "solo"), world);
  EXPECT_EQ(worker.Finish(), absl::OkStatus());
  EXPECT_THAT(coordinator.evaluations(), testing::IsEmpty());
}

TEST(RunWorkerTest, BlockedSecondsCountOnlyWhatWasWaitedFor) {
  // Eager with max_late 1: boundaries 0 and 1 need nothing, boundary 2 needs the average of round 0.
  FakeCoordinator coordinator(Yaml("eager", 1, "max_late: 1\n"));
  coordinator.Hold(true);
  RunningWorker worker(RunningWorker::Options(coordinator.address(), "solo"), World(0));
  ASSERT_TRUE(coordinator.Await([](const FakeCoordinator& c) { return c.stored("solo", 1) == 2; }));
  EXPECT_EQ(worker.boundaries().size(), 2u);
  coordinator.Hold(false);
  ASSERT_EQ(worker.Finish(), absl::OkStatus());
  const std::vector<RunningWorker::Boundary> boundaries = worker.boundaries();
  ASSERT_EQ(boundaries.size(), static_cast<size_t>(kRounds));
  double blocked = 0;
  for (const RunningWorker::Boundary& boundary : boundaries) {
    EXPECT_EQ(boundary.blocked_seconds > 0, boundary.waited);
    EXPECT_GE(boundary.version, boundary.round - 1);
    EXPECT_LE(boundary.version, boundary.round);
    blocked += boundary.blocked_seconds;
  }
  EXPECT_EQ(boundaries[0].version, 0);
  EXPECT_EQ(boundaries[1].version, 0);
  EXPECT_DOUBLE_EQ(worker.last().blocked_seconds, blocked);
  EXPECT_LE(blocked, worker.last().wall_seconds);
}

TEST(RunWorkerTest, JumpsOverRoundsThatClosedWithoutIt) {
  FakeCoordinator coordinator(Yaml("eager", 1));
  std::atomic<RunningWorker*> running = nullptr;
  QuadraticTrainer::Options world = World(0);
  // During round 1 the rounds up to 3 close, and everything has reached the worker by its boundary.
  world.on_step = [&](int64_t step) {
    if (step == kInnerSteps + 1) {
      ASSERT_TRUE(coordinator.Await([](const FakeCoordinator& c) { return c.version() == 1; }));
      for (int i = 0; i < 3; ++i) {
        coordinator.CommitNow();
      }
      ASSERT_TRUE(coordinator.Await([&](const FakeCoordinator&) {
        return running.load() != nullptr && running.load()->ConsensusVersion() == 4;
      }));
    }
  };
  RunningWorker worker(RunningWorker::Options(coordinator.address(), "solo"), world);
  running = &worker;
  ASSERT_EQ(worker.Finish(), absl::OkStatus());
  const std::vector<RunningWorker::Boundary> boundaries = worker.boundaries();
  ASSERT_GE(boundaries.size(), 2u);
  EXPECT_EQ(boundaries[1].round, 1);
  EXPECT_EQ(boundaries[1].version, 4);
  EXPECT_EQ(boundaries[1].next_round, 4);
  EXPECT_EQ(worker.last().rounds_skipped, 2);
}

}  // namespace
}  // namespace diloco
