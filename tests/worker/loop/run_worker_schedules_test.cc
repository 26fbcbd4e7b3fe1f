// Whole workers against a fake coordinator: fragments that stop apart, averages that come rounds later, and what both
// must equal.
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/worker/loop/worker_runner.h"

namespace diloco {
namespace {

constexpr int kSize = 6;
constexpr int kRounds = 6;
constexpr int kInnerSteps = 4;
constexpr double kInnerRate = 0.1;

std::string Yaml(const std::string& method, int workers, const std::string& more) {
  return absl::StrFormat(
      "run: {id: test, workers: %d, rounds: %d}\n"
      "method: %s\n"
      "inner_steps: %d\n"
      "max_late: 0\n"
      "wire: {uplink: fp32, downlink: fp32}\n"
      "%s",
      workers, kRounds, method, kInnerSteps, more);
}

QuadraticTrainer::Options World(int worker) {
  QuadraticTrainer::Options world = QuadraticTrainer::World(worker, kSize);
  world.rate = kInnerRate;
  world.tensors = 3;
  return world;
}

struct Outcome {
  std::vector<std::vector<RunningWorker::Boundary>> stops;  // By worker.
  std::vector<float> consensus;
};

Outcome RunAll(const std::string& method, int workers, const std::string& more) {
  FakeCoordinator coordinator(Yaml(method, workers, more));
  std::vector<std::unique_ptr<RunningWorker>> running;
  for (int m = 0; m < workers; ++m) {
    running.push_back(std::make_unique<RunningWorker>(
        RunningWorker::Options(coordinator.address(), absl::StrFormat("w%d", m)), World(m)));
  }
  Outcome outcome;
  for (const auto& worker : running) {
    EXPECT_EQ(worker->Finish(), absl::OkStatus());
    outcome.stops.push_back(worker->boundaries());
  }
  outcome.consensus = coordinator.ConsensusParameters();
  return outcome;
}

// The same stops, with parameters that are `tolerance` apart at most.
void ExpectSame(const Outcome& actual, const Outcome& expected, double tolerance) {
  for (size_t m = 0; m < expected.stops.size(); ++m) {
    ASSERT_EQ(actual.stops[m].size(), expected.stops[m].size());
    for (size_t k = 0; k < expected.stops[m].size(); ++k) {
      EXPECT_EQ(actual.stops[m][k].step, expected.stops[m][k].step);
      for (size_t i = 0; i < kSize; ++i) {
        EXPECT_NEAR(actual.stops[m][k].theta[i], expected.stops[m][k].theta[i], tolerance)
            << "worker " << m << " step " << actual.stops[m][k].step << " element " << i;
      }
    }
  }
  for (size_t i = 0; i < kSize; ++i) EXPECT_NEAR(actual.consensus[i], expected.consensus[i], tolerance) << i;
}

// With one worker and lambda 1 look-ahead predicts exactly what comes, however late (arXiv 2502.12996, M = 1).
TEST(RunWorkerSchedulesTest, OneEagerWorkerIsBlockingHoweverLateTheAverages) {
  const std::string fragments = "fragments: {count: 3}\n";
  const Outcome blocking = RunAll("diloco", 1, fragments);
  for (const int rounds : {1, 2, 3}) {
    for (const char* momentum : {"own", "shared"}) {
      const Outcome eager = RunAll("eager", 1,
                                   fragments + absl::StrFormat("overlap: %d\nlookahead: {lambda: 1, momentum: %s}\n",
                                                               rounds * kInnerSteps, momentum));
      ExpectSame(eager, blocking, 2e-6);
      EXPECT_EQ(eager.stops[0].back().version, kRounds - rounds);
    }
  }
}

TEST(RunWorkerSchedulesTest, OneEagerWorkerIsBlockingAtAnyOffsets) {
  const std::string fragments = "fragments: {count: 3, offsets: [0, 3, 1]}\n";
  const Outcome blocking = RunAll("diloco", 1, fragments);
  ASSERT_EQ(blocking.stops[0].size(), 3u * (kRounds - 1) + 1) << "the last rounds end together";
  ExpectSame(RunAll("eager", 1, fragments + "lookahead: {lambda: 1}\n"), blocking, 2e-6);
}

TEST(RunWorkerSchedulesTest, StreamingThatKeepsItsThetaTrainsAlone) {
  const Outcome alone =
      RunAll("streaming", 3, "overlap: 2\nstreaming: {mixing: 1}\nfragments: {count: 3, offsets: spread}\n");
  for (int m = 0; m < 3; ++m) {
    const QuadraticTrainer::Options world = World(m);
    const std::vector<float>& theta = alone.stops[static_cast<size_t>(m)].back().theta;
    for (size_t i = 0; i < kSize; ++i) {
      const double expected =
          world.c[i] + (world.start[i] - world.c[i]) * std::pow(1 - kInnerRate * world.a[i], kRounds * kInnerSteps);
      EXPECT_NEAR(theta[i], expected, 2e-6) << "worker " << m << " element " << i;
    }
  }
}

TEST(RunWorkerSchedulesTest, StreamingOfOneFragmentWithoutOverlapAndMixingIsBlocking) {
  const std::string fragments = "fragments: {count: 1, offsets: together}\n";
  ExpectSame(RunAll("streaming", 3, "overlap: 0\nstreaming: {mixing: 0}\n" + fragments), RunAll("diloco", 3, fragments),
             0);
}

TEST(RunWorkerSchedulesTest, StreamingAppliesEachAverageExactlyWhenItIsDue) {
  const Outcome outcome = RunAll("streaming", 2, "overlap: 3\nfragments: {count: 2, offsets: [0, 2]}\n");
  std::vector<std::pair<int64_t, int64_t>> versions;  // Step, oldest version in the parameters.
  for (const RunningWorker::Boundary& stop : outcome.stops[0]) versions.emplace_back(stop.step, stop.version);
  // Fragment 0 ends rounds at 4, 8, ... and sets at 7, 11, ...; fragment 1 at 6, 10, ... and 9, 13, ... .
  const std::vector<std::pair<int64_t, int64_t>> expected = {
      {4, 0},  {6, 0},  {7, 0},  {8, 0},  {9, 1},  {10, 1}, {11, 1}, {12, 1}, {13, 2}, {14, 2}, {15, 2},
      {16, 2}, {17, 3}, {18, 3}, {19, 3}, {20, 3}, {21, 4}, {22, 4}, {23, 4}, {24, 4}, {24, 5}, {24, 5}};
  EXPECT_EQ(versions.size(), expected.size());
  for (size_t k = 0; k < std::min(versions.size(), expected.size()); ++k) {
    EXPECT_EQ(versions[k].first, expected[k].first) << "stop " << k;
    EXPECT_EQ(versions[k].second, expected[k].second) << "step " << expected[k].first;
  }
}

// NaN in one fragment makes all of theta suspect, so that all of it goes back.
TEST(RunWorkerSchedulesTest, AFragmentThatIsNotFiniteSendsAllBackToTheirAnchors) {
  FakeCoordinator coordinator(Yaml("streaming", 1, "overlap: 1\nfragments: {count: 3, offsets: [0, 2, 3]}\n"));
  QuadraticTrainer::Options world = World(0);
  world.nan_at_step = 2 * kInnerSteps - 1;
  RunningWorker worker(RunningWorker::Options(coordinator.address(), "solo"), world);
  ASSERT_EQ(worker.Finish(), absl::OkStatus());
  const std::vector<RunningWorker::Boundary> stops = worker.boundaries();
  int healed = 0;
  for (const RunningWorker::Boundary& stop : stops) {
    healed += stop.finite ? 0 : 1;
    if (!stop.finite) {
      EXPECT_EQ(stop.step, 2 * kInnerSteps);
    }
    for (const float value : stop.theta) EXPECT_TRUE(std::isfinite(value)) << "step " << stop.step;
  }
  EXPECT_EQ(healed, 1);
  EXPECT_EQ(worker.last().outer_gradients_not_finite, 1);
  for (const float value : coordinator.ConsensusParameters()) EXPECT_TRUE(std::isfinite(value));
}

TEST(RunWorkerSchedulesTest, JumpsToTheOldestOpenRoundOfAnyFragment) {
  FakeCoordinator coordinator(Yaml("eager", 1, "fragments: {count: 3, offsets: [0, 2, 3]}\n"));
  std::atomic<RunningWorker*> running = nullptr;
  QuadraticTrainer::Options world = World(0);
  // While it trains in round 1, the rounds up to 3 close without it.
  world.on_step = [&](int64_t step) {
    if (step == 2 * kInnerSteps - 1) {
      ASSERT_TRUE(coordinator.Await([](const FakeCoordinator& c) { return c.version() == 1; }));
      for (int i = 0; i < 3; ++i) coordinator.CommitNow();
      ASSERT_TRUE(coordinator.Await([&](const FakeCoordinator&) {
        return running.load() != nullptr && running.load()->ConsensusVersion() == 4;
      }));
    }
  };
  RunningWorker worker(RunningWorker::Options(coordinator.address(), "solo"), world);
  running = &worker;
  ASSERT_EQ(worker.Finish(), absl::OkStatus());
  EXPECT_GT(worker.last().rounds_skipped, 0);
  EXPECT_EQ(worker.last().step, kRounds * kInnerSteps);
  EXPECT_EQ(coordinator.version(), kRounds);
}

}  // namespace
}  // namespace diloco
