// Whole workers of method `data-parallel` against a fake coordinator: what they send are gradients, and the consensus
// is trained by the outer optimizer.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/schedule/inner_schedule.h"
#include "tests/worker/loop/worker_runner.h"

namespace diloco {
namespace {

constexpr int kSize = 4;
constexpr int kSteps = 12;
constexpr double kClip = 1.5;

std::string Yaml(int workers) {
  return absl::StrFormat(
      "run: {id: test, workers: %d, rounds: %d}\n"
      "method: data-parallel\n"
      "inner: {rate: 0.1, warmup_steps: 2, clip: %g, weight_decay: 0}\n"
      "wire: {uplink: fp32, downlink: fp32}\n",
      workers, kSteps, kClip);
}

QuadraticTrainer::Options World(int worker) {
  QuadraticTrainer::Options world = QuadraticTrainer::World(worker, kSize);
  return world;
}

// AdamW on the mean of the workers' losses, in double precision. Theta after each step; the worker in `without`, if
// any, contributes nothing at step `at`.
std::vector<std::vector<double>> Direct(int workers, int without = -1, int at = -1) {
  const RunConfig config = ParseRunConfig(Yaml(workers), "test").value();
  std::vector<double> theta = World(0).start;
  std::vector<double> mean(kSize, 0.0);
  std::vector<double> square(kSize, 0.0);
  std::vector<std::vector<double>> history;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<double> gradient(kSize, 0.0);
    const int merged = step == at ? workers - 1 : workers;
    double norm = 0;
    for (size_t i = 0; i < kSize; ++i) {
      for (int m = 0; m < workers; ++m) {
        if (step == at && m == without) continue;
        gradient[i] += World(m).a[i] * (theta[i] - World(m).c[i]) / merged;
      }
      norm += gradient[i] * gradient[i];
    }
    const double scale = std::min(1.0, kClip / std::sqrt(norm));
    const double rate = InnerRate(config.inner, kSteps, step);
    for (size_t i = 0; i < kSize; ++i) {
      const double g = gradient[i] * scale;
      mean[i] = 0.9 * mean[i] + 0.1 * g;
      square[i] = 0.99 * square[i] + 0.01 * g * g;
      const double m = mean[i] / (1 - std::pow(0.9, step + 1));
      const double v = square[i] / (1 - std::pow(0.99, step + 1));
      theta[i] -= rate * m / (std::sqrt(v) + 1e-8);
    }
    history.push_back(theta);
  }
  return history;
}

void ExpectFollows(const RunningWorker& worker, const std::vector<std::vector<double>>& expected) {
  const std::vector<RunningWorker::Boundary> stops = worker.boundaries();
  ASSERT_EQ(stops.size(), expected.size());
  for (size_t step = 0; step < expected.size(); ++step) {
    EXPECT_EQ(stops[step].version, static_cast<int64_t>(step) + 1);
    for (size_t i = 0; i < kSize; ++i) {
      EXPECT_NEAR(stops[step].theta[i], expected[step][i], 5e-6) << "step " << step << " element " << i;
    }
  }
}

class DataParallelWorkersTest : public testing::TestWithParam<int> {};

TEST_P(DataParallelWorkersTest, WorkersAreOneThatSeesAllTheirBatches) {
  const int workers = GetParam();
  FakeCoordinator coordinator(Yaml(workers));
  std::vector<std::unique_ptr<RunningWorker>> running;
  for (int m = 0; m < workers; ++m) {
    running.push_back(std::make_unique<RunningWorker>(
        RunningWorker::Options(coordinator.address(), absl::StrFormat("w%d", m)), World(m)));
  }
  for (const auto& worker : running) {
    EXPECT_EQ(worker->Finish(), absl::OkStatus());
    ExpectFollows(*worker, Direct(workers));
    EXPECT_EQ(worker->last().tokens, static_cast<uint64_t>(kSteps));
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, DataParallelWorkersTest, testing::Values(1, 3), testing::PrintToStringParamName());

TEST(DataParallelTest, GradientThatIsNotFiniteIsNotSent) {
  FakeCoordinator coordinator(Yaml(2));
  QuadraticTrainer::Options faulty = World(1);
  faulty.nan_at_step = 5;
  RunningWorker sound(RunningWorker::Options(coordinator.address(), "w0"), World(0));
  RunningWorker unsound(RunningWorker::Options(coordinator.address(), "w1"), faulty);
  EXPECT_EQ(sound.Finish(), absl::OkStatus());
  EXPECT_EQ(unsound.Finish(), absl::OkStatus());
  ExpectFollows(sound, Direct(2, /*without=*/1, /*at=*/5));
  ExpectFollows(unsound, Direct(2, /*without=*/1, /*at=*/5));
  EXPECT_FALSE(unsound.boundaries()[5].finite);
  EXPECT_EQ(unsound.last().outer_gradients_not_finite, 1);
}

}  // namespace
}  // namespace diloco
