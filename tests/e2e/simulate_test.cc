// The train simulator against the service: real processes and sockets on one side, one thread on the other, and the
// same bits in every version of every fragment's consensus.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

#include "nlohmann/json.hpp"
#include "tests/support/coordinator_process.h"
#include "tests/support/drift_trainer.h"
#include "tests/support/process.h"
#include "worker/simulate/train_simulator.h"

namespace diloco {
namespace {

using nlohmann::json;
using testing::CoordinatorProcess;
using testing::DriftTrainer;
using testing::kPatience;
using testing::Process;
using testing::TempFolder;

constexpr int kWorkers = 3;
constexpr int kRounds = 6;
constexpr int64_t kElements = 5000;
constexpr int kTensors = 7;

struct Setting {
  std::string name;
  std::string yaml;  // The method and its keys.
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

const Setting kSettings[] = {
    {"Eager", "method: eager\n"},
    {"EagerExact", "method: eager\nwire: {uplink: fp32, downlink: fp32}\n"},
    {"EagerShared", "method: eager\nlookahead: {lambda: 1.25, momentum: shared}\n"},
    {"EagerFeedback", "method: eager\nwire: {error_feedback: uplink}\n"},
    {"EagerByTokens", "method: eager\nouter: {weights: tokens}\n"},
    {"EagerTwoRounds", "method: eager\noverlap: 10\n"},
    {"EagerAtOffsets", "method: eager\nfragments: {count: 3, offsets: spread}\n"},
    {"EagerAdam", "method: eager\nouter: {optimizer: adam}\nlookahead: {lambda: 1, momentum: shared}\n"},
    {"Blend", "method: blend\n"},
    {"BlendExact", "method: blend\nblend: {alpha: 0.75}\nwire: {uplink: fp32, downlink: fp32}\n"},
    {"DataParallel", "method: data-parallel\n"},
    {"DataParallelExact", "method: data-parallel\nwire: {uplink: fp32, downlink: fp32}\n"},
    {"Delayed", "method: delayed\n"},
    {"DelayedExact", "method: delayed\nwire: {uplink: fp32, downlink: fp32}\n"},
    {"DiLoCo", "method: diloco\n"},
    {"DiLoCoExact", "method: diloco\nwire: {uplink: fp32, downlink: fp32}\n"},
    {"DiLoCoStochastic", "method: diloco\nouter: {optimizer: sgd}\nwire: {rounding: stochastic}\n"},
    {"DiLoCoFeedback", "method: diloco\nwire: {downlink: int4, error_feedback: both}\n"},
    {"Streaming", "method: streaming\n"},
    {"StreamingByTokens", "method: streaming\nouter: {weights: tokens}\n"},
    {"StreamingExact", "method: streaming\noverlap: 3\nwire: {uplink: fp32, downlink: fp32}\n"},
};

// (fragment, version) -> digest of the consensus.
using Digests = std::map<std::pair<int, int64_t>, std::string>;

std::string ConfigYaml(const Setting& setting) {
  const auto has = [&](const char* method) { return setting.yaml.find(method) != std::string::npos; };
  return absl::StrFormat(
      "run: {id: simulated, workers: %d, rounds: %d, seed: 5}\n%s%s%s"
      "rounds: {heartbeat_interval: 100ms, lease: 30s}\neval: {every: 1}\n",
      kWorkers, kRounds, setting.yaml, has("data-parallel") ? "" : "inner_steps: 5\n",
      has("eager") ? "max_late: 0\n" : "");
}

DriftTrainer::Options TrainerOptions(int worker) {
  return {.elements = kElements, .tensors = kTensors, .seed = worker};
}

std::string WorkerId(int worker) { return absl::StrFormat("w%d", worker); }

Digests Simulated(const std::string& yaml) {
  const absl::StatusOr<RunConfig> config = ParseRunConfig(yaml, "test");
  EXPECT_TRUE(config.ok()) << config.status();
  if (!config.ok()) return {};
  Digests digests;
  const auto on_report = [&](const SimulationReport& report) {
    for (size_t f = 0; f < report.digests.size(); ++f) {
      digests[{static_cast<int>(f), report.version}] = report.digests[f].Hex();
    }
    return absl::OkStatus();
  };
  std::vector<SimulatedWorker> workers;
  for (int m = 0; m < kWorkers; ++m) {
    workers.push_back({.id = WorkerId(m), .trainer = std::make_unique<DriftTrainer>(TrainerOptions(m))});
  }
  const auto simulator = TrainSimulator::Create({.on_report = on_report}, &*config, std::move(workers));
  EXPECT_TRUE(simulator.ok()) << simulator.status();
  if (!simulator.ok()) return {};
  const absl::Status status = (*simulator)->Run();
  EXPECT_TRUE(status.ok()) << status;
  return digests;
}

// Of the service's workers, which agree.
Digests Served(const std::string& yaml) {
  const TempFolder folder;
  CoordinatorProcess coordinator(folder.path(), yaml);
  EXPECT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  std::vector<Process> workers;
  for (int m = 0; m < kWorkers; ++m) {
    absl::StatusOr<Process> worker = Process::Start(
        {.arguments = {DILOCO_SYNTHETIC_WORKER, "--coordinator", coordinator.address(), "--id", WorkerId(m), "--worker",
                       absl::StrFormat("%d", m), "--elements", absl::StrFormat("%d", kElements), "--tensors",
                       absl::StrFormat("%d", kTensors), "--trace", folder.File(WorkerId(m) + ".jsonl")},
         .output_path = folder.File(WorkerId(m) + ".log")});
    EXPECT_TRUE(worker.ok()) << worker.status();
    if (!worker.ok()) return {};
    workers.push_back(*std::move(worker));
  }
  Digests digests;
  for (int m = 0; m < kWorkers; ++m) {
    const absl::StatusOr<int> exit_code = workers[static_cast<size_t>(m)].Wait(kPatience);
    EXPECT_TRUE(exit_code.ok() && *exit_code == 0)
        << exit_code.status() << testing::ReadFile(folder.File(WorkerId(m) + ".log")) << coordinator.Log();
    std::istringstream lines(testing::ReadFile(folder.File(WorkerId(m) + ".jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const json entry = json::parse(line);
      if (!entry.contains("digest") || entry.at("version") == 0) continue;
      const auto [known, added] =
          digests.insert({{entry.at("fragment"), entry.at("version")}, entry.at("digest").get<std::string>()});
      EXPECT_EQ(known->second, entry.at("digest")) << line;
    }
  }
  const absl::StatusOr<int> stopped = coordinator.Stop();
  EXPECT_TRUE(stopped.ok() && *stopped == 0) << coordinator.Log();
  return digests;
}

class SimulateTest : public ::testing::TestWithParam<Setting> {};

TEST_P(SimulateTest, GivesTheServicesBits) {
  const std::string yaml = ConfigYaml(GetParam());
  const Digests simulated = Simulated(yaml);
  EXPECT_FALSE(simulated.empty());
  EXPECT_EQ(simulated.size() % kRounds, 0u);
  EXPECT_EQ(simulated, Served(yaml));
}

INSTANTIATE_TEST_SUITE_P(Methods, SimulateTest, ::testing::ValuesIn(kSettings),
                         [](const ::testing::TestParamInfo<Setting>& setting) { return setting.param.name; });

}  // namespace
}  // namespace diloco
