// An operator takes workers out of a run and lets one in again, with dilococtl, while it goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "absl/strings/str_format.h"

#include "nlohmann/json.hpp"
#include "tests/support/coordinator_process.h"
#include "tests/support/process.h"

namespace diloco {
namespace {

using nlohmann::json;
using testing::CoordinatorProcess;
using testing::Finished;
using ::testing::HasSubstr;
using testing::kPatience;
using testing::Process;
using testing::RunProcess;
using testing::TempFolder;

// A quorum of all three: whoever is taken out would hold every round, if it counted.
class OperatorTest : public ::testing::Test {
 protected:
  OperatorTest()
      : coordinator_(folder_.path(),
                     "run: {id: operator, workers: 3, rounds: 1000000}\n"
                     "method: eager\n"
                     "inner_steps: 5\n"
                     "fragments: {count: 2}\nwire: {uplink: fp32, downlink: fp32}\n"
                     "rounds: {heartbeat_interval: 50ms, lease: 20s, snapshot_every: 4}\n") {}

  Process StartWorker(const std::string& id) {
    absl::StatusOr<Process> worker =
        Process::Start({.arguments = {DILOCO_SYNTHETIC_WORKER, "--coordinator", coordinator_.address(), "--id", id,
                                      "--elements", "2000", "--tensors", "4", "--step-ms", "10"},
                        .output_path = folder_.File(id + ".log")});
    EXPECT_TRUE(worker.ok()) << worker.status();
    return *std::move(worker);
  }
  std::string Log(const std::string& id) const { return testing::ReadFile(folder_.File(id + ".log")); }
  int ExitCode(Process* worker) {
    const absl::StatusOr<int> code = worker->Wait(2 * kPatience);
    EXPECT_TRUE(code.ok()) << code.status() << coordinator_.Log();
    return code.value_or(-1);
  }
  int64_t RoundsCommitted() {
    const absl::StatusOr<json> status = coordinator_.Ctl({"status"});
    return status.ok() ? std::stoll(status->at("rounds_committed").get<std::string>()) : -1;
  }
  // Until so many more are committed.
  void AwaitRounds(int64_t more) {
    const int64_t from = RoundsCommitted();
    const absl::Time deadline = absl::Now() + kPatience;
    while (RoundsCommitted() < from + more) ASSERT_LT(absl::Now(), deadline) << coordinator_.Log();
  }
  std::string State(const std::string& id) {
    const absl::StatusOr<json> workers = coordinator_.Ctl({"worker", "list"});
    if (!workers.ok()) return workers.status().ToString();
    for (const json& worker : workers->at("workers")) {
      if (worker.at("worker_id") == id) return worker.at("state");
    }
    return "";
  }

  const TempFolder folder_;
  CoordinatorProcess coordinator_;
};

TEST_F(OperatorTest, DrainsEvictsAndAdmitsWhileTheRunGoesOn) {
  ASSERT_TRUE(coordinator_.Start().ok()) << coordinator_.Log();
  Process w0 = StartWorker("w0");
  Process w1 = StartWorker("w1");
  Process w2 = StartWorker("w2");
  ASSERT_NO_FATAL_FAILURE(AwaitRounds(2));

  // The coordinator dies with the order: it is durable all the same.
  ASSERT_TRUE(coordinator_.Ctl({"worker", "drain", "w1", "--yes"}).ok());
  coordinator_.Kill();
  ASSERT_TRUE(coordinator_.Start().ok()) << coordinator_.Log();
  EXPECT_EQ(ExitCode(&w1), 0) << Log("w1");
  EXPECT_EQ(State("w1"), "WORKER_STATE_LEFT");

  const absl::StatusOr<json> evicted = coordinator_.Ctl({"worker", "evict", "w2", "--yes"});
  ASSERT_TRUE(evicted.ok()) << evicted.status();
  EXPECT_EQ(ExitCode(&w2), 5) << Log("w2");
  EXPECT_THAT(Log("w2"), HasSubstr("worker \"w2\" was evicted by an operator; `dilococtl worker admit w2`"));
  Process refused = StartWorker("w2");
  EXPECT_EQ(ExitCode(&refused), 5) << Log("w2");
  EXPECT_EQ(State("w2"), "WORKER_STATE_EVICTED");

  ASSERT_TRUE(coordinator_.Ctl({"worker", "admit", "w2"}).ok());
  Process readmitted = StartWorker("w2");
  const absl::Time deadline = absl::Now() + kPatience;
  while (State("w2") != "WORKER_STATE_ALIVE") ASSERT_LT(absl::Now(), deadline) << Log("w2");
  ASSERT_NO_FATAL_FAILURE(AwaitRounds(3));

  // The last ones: then the run waits for whoever comes next.
  ASSERT_TRUE(coordinator_.Ctl({"worker", "drain", "w2", "--yes"}).ok());
  EXPECT_EQ(ExitCode(&readmitted), 0) << Log("w2");
  ASSERT_TRUE(coordinator_.Ctl({"worker", "drain", "w0", "--yes"}).ok());
  EXPECT_EQ(ExitCode(&w0), 0) << Log("w0");
  const absl::StatusOr<Finished> status =
      RunProcess({testing::Program("dilococtl"), "--coordinator", coordinator_.address(), "status"}, kPatience);
  EXPECT_THAT(status->output, HasSubstr("need 1 more of 0 live workers; nothing more from \"w0\", \"w1\", \"w2\""));
  EXPECT_EQ(*coordinator_.Stop(), 0) << coordinator_.Log();
}

TEST_F(OperatorTest, DrainsAWorkerThatStillWaitsForTheOthers) {
  ASSERT_TRUE(coordinator_.Start().ok()) << coordinator_.Log();
  Process w0 = StartWorker("w0");
  const absl::Time deadline = absl::Now() + kPatience;
  while (State("w0") != "WORKER_STATE_ALIVE") ASSERT_LT(absl::Now(), deadline) << Log("w0");
  ASSERT_TRUE(coordinator_.Ctl({"worker", "drain", "w0", "--yes"}).ok());
  EXPECT_EQ(ExitCode(&w0), 0) << Log("w0");
  EXPECT_EQ(State("w0"), "WORKER_STATE_LEFT");
}

}  // namespace
}  // namespace diloco
