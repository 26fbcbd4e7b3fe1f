// What takes a worker its deadline to find out.
#include <string>

#include "gtest/gtest.h"

#include "common/base/limits.h"
#include "tests/worker/loop/worker_runner.h"

namespace diloco {
namespace {

constexpr char kYaml[] =
    "run: {id: test, workers: 1, rounds: 2}\nmethod: diloco\ninner_steps: 2\nfragments: {count: 1}\n"
    "wire: {uplink: fp32, downlink: fp32}\n";

TEST(RunWorkerSlowTest, ACallWithoutAnAnswerIsGivenUpAtItsDeadlineAndMadeAgain) {
  FakeCoordinator coordinator(kYaml);
  coordinator.SetFaults({.silent_describes = 1});
  WorkerOptions options = RunningWorker::Options(coordinator.address(), "solo");
  options.connect_timeout = 10 * kCallDeadline;
  const SteadyClock clock;
  const MonotonicTime begin = clock.Now();
  RunningWorker worker(options, {.a = {0.5}, .c = {1}, .start = {0}, .tensors = 1});
  EXPECT_EQ(worker.Finish(), absl::OkStatus());
  EXPECT_GE(clock.Now() - begin, kCallDeadline);
}

}  // namespace
}  // namespace diloco
