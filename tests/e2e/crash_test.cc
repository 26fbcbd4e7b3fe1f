// kill -9 of the coordinator in the middle of a run: training goes on, nothing published is lost, and with a fixed
// schedule the final consensus has the same bits as that of an undisturbed run.
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"

#include "nlohmann/json.hpp"
#include "tests/support/coordinator_process.h"
#include "tests/support/process.h"

namespace diloco {
namespace {

using nlohmann::json;
using testing::CoordinatorProcess;
using testing::kPatience;
using testing::Process;
using testing::TempFolder;

constexpr int kWorkers = 2;
constexpr int kRounds = 12;

std::string Config(const std::string& uplink, const std::string& downlink) {
  return absl::StrFormat(
      "run: {id: crash, workers: %d, rounds: %d}\n"
      "method: eager\n"
      "inner_steps: 5\n"
      "max_late: 0\n"
      "fragments: {count: 3}\nwire: {uplink: %s, downlink: %s}\n"
      "rounds: {heartbeat_interval: 100ms, lease: 20s, snapshot_every: 4}\n",
      kWorkers, kRounds, uplink, downlink);
}

std::vector<Process> StartWorkers(const TempFolder& folder, const CoordinatorProcess& coordinator) {
  std::vector<Process> workers;
  for (int m = 0; m < kWorkers; ++m) {
    absl::StatusOr<Process> worker =
        Process::Start({.arguments = {DILOCO_SYNTHETIC_WORKER, "--coordinator", coordinator.address(), "--id",
                                      absl::StrFormat("w%d", m), "--elements", "20000", "--tensors", "6", "--step-ms",
                                      "10", "--trace", folder.File(absl::StrFormat("w%d.jsonl", m))},
                        .output_path = folder.File(absl::StrFormat("w%d.log", m))});
    EXPECT_TRUE(worker.ok()) << worker.status();
    if (worker.ok()) workers.push_back(*std::move(worker));
  }
  return workers;
}

// (fragment, version) -> digest, as the first worker saw them; both must agree.
std::map<std::pair<int, int64_t>, std::string> Digests(const TempFolder& folder) {
  std::map<std::pair<int, int64_t>, std::string> digests;
  for (int m = 0; m < kWorkers; ++m) {
    std::istringstream lines(testing::ReadFile(folder.File(absl::StrFormat("w%d.jsonl", m))));
    for (std::string line; std::getline(lines, line);) {
      const json entry = json::parse(line, nullptr, false);
      if (entry.is_discarded() || !entry.contains("digest")) continue;
      const auto [at, added] = digests.try_emplace({entry.at("fragment"), entry.at("version")}, entry.at("digest"));
      EXPECT_EQ(at->second, entry.at("digest")) << "worker " << m << ": " << line;
    }
  }
  return digests;
}

int64_t RoundsCommitted(const CoordinatorProcess& coordinator) {
  const absl::StatusOr<json> status = coordinator.Ctl({"status"});
  if (!status.ok()) return -1;
  return std::stoll(status->at("rounds_committed").get<std::string>());
}

void ExpectFinished(std::vector<Process>& workers, const TempFolder& folder, const CoordinatorProcess& coordinator) {
  for (int m = 0; m < kWorkers; ++m) {
    const absl::StatusOr<int> exit_code = workers[static_cast<size_t>(m)].Wait(2 * kPatience);
    ASSERT_TRUE(exit_code.ok() && *exit_code == 0)
        << exit_code.status() << testing::ReadFile(folder.File(absl::StrFormat("w%d.log", m))) << coordinator.Log();
  }
}

class CoordinatorCrashTest : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(CoordinatorCrashTest, ConsensusEqualsThatOfAnUndisturbedRun) {
  const auto [uplink, downlink] = GetParam();
  std::map<std::pair<int, int64_t>, std::string> undisturbed;
  {
    const TempFolder folder;
    CoordinatorProcess coordinator(folder.path(), Config(uplink, downlink));
    ASSERT_TRUE(coordinator.Start().ok()) << coordinator.Log();
    std::vector<Process> workers = StartWorkers(folder, coordinator);
    ASSERT_NO_FATAL_FAILURE(ExpectFinished(workers, folder, coordinator));
    undisturbed = Digests(folder);
  }
  ASSERT_TRUE(undisturbed.contains({0, kRounds}));

  const TempFolder folder;
  CoordinatorProcess coordinator(folder.path(), Config(uplink, downlink));
  ASSERT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  std::vector<Process> workers = StartWorkers(folder, coordinator);
  // Killed three times: early, behind the first snapshot, and late. Each time what had been published is still there.
  for (const int64_t at_least : {1, 5, 9}) {
    int64_t committed = 0;
    const absl::Time deadline = absl::Now() + kPatience;
    while ((committed = RoundsCommitted(coordinator)) < at_least) ASSERT_LT(absl::Now(), deadline) << coordinator.Log();
    coordinator.Kill();
    ASSERT_TRUE(coordinator.Start().ok()) << coordinator.Log();
    EXPECT_GE(RoundsCommitted(coordinator), committed);
  }
  ASSERT_NO_FATAL_FAILURE(ExpectFinished(workers, folder, coordinator));
  EXPECT_EQ(RoundsCommitted(coordinator), kRounds);
  EXPECT_EQ(Digests(folder), undisturbed);
}

INSTANTIATE_TEST_SUITE_P(Codecs, CoordinatorCrashTest,
                         ::testing::Values(std::pair("fp32", "fp32"), std::pair("e3m0", "int8")),
                         [](const auto& parameter) { return std::string(parameter.param.first); });

}  // namespace
}  // namespace diloco
