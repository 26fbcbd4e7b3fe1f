// One worker, by itself: with every method it learns, and it is heard from while it computes.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/outer/method.h"
#include "tests/worker/loop/worker_runner.h"

namespace diloco {
namespace {

constexpr int kRounds = 60;

QuadraticTrainer::Options World() {
  return {.a = {0.3, 0.5, 0.7, 0.9}, .c = {1, -1, 2, -2}, .start = {0, 0.5, 1, 1.5}, .tensors = 2};
}

double Loss(const std::vector<float>& theta) {
  const QuadraticTrainer::Options world = World();
  double loss = 0;
  for (size_t i = 0; i < theta.size(); ++i) loss += 0.5 * world.a[i] * std::pow(theta[i] - world.c[i], 2);
  return loss;
}

std::vector<std::string> MethodNames() {
  std::vector<std::string> names;
  for (const Method& method : Methods()) names.emplace_back(method.name);
  return names;
}

class AloneTest : public testing::TestWithParam<std::string> {};

TEST_P(AloneTest, TheConsensusLearns) {
  const bool data_parallel = GetParam() == "data-parallel";
  FakeCoordinator coordinator(absl::StrFormat(
      "run: {id: test, workers: 1, rounds: %d}\nmethod: %s\n%swire: {uplink: fp32, downlink: fp32}\n", kRounds,
      GetParam(), data_parallel ? "inner: {rate: 0.2, warmup_steps: 0}\n" : "inner_steps: 4\nfragments: {count: 2}\n"));
  RunningWorker worker(RunningWorker::Options(coordinator.address(), "solo"), World());
  ASSERT_EQ(worker.Finish(), absl::OkStatus());
  std::vector<float> start;
  for (const double value : World().start) start.push_back(static_cast<float>(value));
  const double loss = Loss(coordinator.ConsensusParameters());
  EXPECT_LT(loss, Loss(start) / 100) << loss;
}

INSTANTIATE_TEST_SUITE_P(Methods, AloneTest, testing::ValuesIn(MethodNames()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// The thread that trains is not the one that says that the worker lives: an inner step may outlast any lease.
TEST(AloneHeartbeatTest, AStepEndsAfterAnyNumberOfHeartbeats) {
  FakeCoordinator coordinator(
      "run: {id: test, workers: 1, rounds: 2}\nmethod: eager\ninner_steps: 2\nfragments: {count: 2}\n"
      "wire: {uplink: fp32, downlink: fp32}\n");
  QuadraticTrainer::Options world = World();
  bool heard = false;
  world.on_step = [&](int64_t step) {
    if (step != 1) return;
    const size_t before = coordinator.heartbeats().size();
    heard = coordinator.Await([before](const FakeCoordinator& c) { return c.heartbeats().size() >= before + 20; });
  };
  RunningWorker worker(RunningWorker::Options(coordinator.address(), "solo"), world);
  EXPECT_EQ(worker.Finish(), absl::OkStatus());
  EXPECT_TRUE(heard);
}

}  // namespace
}  // namespace diloco
