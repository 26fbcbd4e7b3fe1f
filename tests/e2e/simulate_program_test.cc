// `diloco-worker simulate` against a coordinator and two diloco-worker processes that train the same model: the same
// consensus digests and the same held-out losses, to the last bit.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"

#include "common/base/digest.h"
#include "nlohmann/json.hpp"
#include "tests/support/coordinator_process.h"
#include "tests/support/process.h"

namespace diloco {
namespace {

using nlohmann::json;
using testing::CoordinatorProcess;
using testing::kPatience;
using testing::Process;
using testing::Program;

constexpr int kRounds = 5;

struct Setting {
  std::string name;
  std::string yaml;  // The method and its keys.
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

std::string Config(const Setting& setting) {
  return absl::StrFormat(
      "run: {id: real, workers: 2, rounds: %d, seed: 3}\n%s"
      "model: {layers: 3, width: 16, heads: 2, sequence: 16}\n"
      "inner: {rate: 1e-2, warmup_steps: 2, batch_size: 4, accumulation: 2}\n"
      "rounds: {heartbeat_interval: 100ms, lease: 30s}\neval: {every: 1, sequences: 8}\n",
      kRounds, setting.yaml);
}

// Text of which each part differs from the others.
std::string Text(int from) {
  std::string text;
  for (int i = from; text.size() < 3000; ++i) text += absl::StrFormat("%d squared is %d. ", i, i * i);
  return text;
}

class SimulateProgramTest : public ::testing::TestWithParam<Setting> {
 protected:
  // The lines of the simulator, by version.
  std::map<int64_t, json> Simulate() const {
    const auto finished =
        testing::RunProcess({Program("diloco-worker"), "simulate", "--config", folder_.File("run.yaml"), "--worker",
                             "west=" + west_, "--worker", "east=" + east_, "--held-out", held_out_, "--threads", "1"},
                            kPatience);
    EXPECT_TRUE(finished.ok() && finished->exit_code == 0) << finished.status() << finished->errors;
    std::map<int64_t, json> lines;
    std::istringstream output(finished.ok() ? finished->output : "");
    for (std::string line; std::getline(output, line);) {
      const json report = json::parse(line);
      lines[report.at("version")] = report;
    }
    return lines;
  }

  Process StartWorker(const CoordinatorProcess& coordinator, const std::string& id, const std::string& data) const {
    auto worker =
        Process::Start({.arguments = {Program("diloco-worker"), "--coordinator", coordinator.address(), "--id", id,
                                      "--data", data, "--held-out", held_out_, "--threads", "1", "--progress", "none"},
                        .output_path = folder_.File(id + ".log")});
    EXPECT_TRUE(worker.ok()) << worker.status();
    return *std::move(worker);
  }

  const testing::TempFolder folder_;
  const std::string east_ = folder_.Write("east.txt", Text(10));
  const std::string west_ = folder_.Write("west.txt", Text(1000));
  const std::string held_out_ = folder_.Write("held-out.txt", Text(500));
};

TEST_P(SimulateProgramTest, GivesTheServicesBits) {
  CoordinatorProcess coordinator(folder_.path(), Config(GetParam()));
  const std::map<int64_t, json> simulated = Simulate();
  ASSERT_EQ(simulated.size(), static_cast<size_t>(kRounds));

  ASSERT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  Process east = StartWorker(coordinator, "east", east_);
  Process west = StartWorker(coordinator, "west", west_);
  for (Process* worker : {&east, &west}) {
    const absl::StatusOr<int> exit_code = worker->Wait(kPatience);
    ASSERT_TRUE(exit_code.ok() && *exit_code == 0)
        << testing::ReadFile(folder_.File("east.log")) << testing::ReadFile(folder_.File("west.log"));
  }
  // A commit record has the digest of a consensus before it.
  std::set<int64_t> compared;
  for (int round = 0; round < kRounds; ++round) {
    const absl::StatusOr<json> described = coordinator.Ctl({"round", "describe", absl::StrFormat("%d", round)});
    ASSERT_TRUE(described.ok()) << described.status();
    for (const json& fragment : described->at("fragments")) {
      const int64_t version = std::stoll(fragment.at("consensus_version").get<std::string>());
      if (version == 0) continue;
      std::string bytes;
      ASSERT_TRUE(absl::Base64Unescape(fragment.at("consensus_digest").at("value").get<std::string>(), &bytes));
      EXPECT_EQ(Digest::FromBytes(bytes).Hex(),
                simulated.at(version).at("consensus_digests").at(fragment.at("fragment").get<size_t>()))
          << "version " << version;
      compared.insert(version);
    }
  }
  EXPECT_GE(compared.size(), 2u);
  const absl::StatusOr<json> status = coordinator.Ctl({"status"});
  ASSERT_TRUE(status.ok()) << status.status();
  std::map<int64_t, double> losses;
  for (const json& evaluation : status->at("evaluations")) {
    losses[std::stoll(evaluation.at("version").get<std::string>())] = evaluation.at("loss");
  }
  EXPECT_TRUE(losses.contains(kRounds));
  for (const auto& [version, loss] : losses) EXPECT_EQ(loss, simulated.at(version).at("loss")) << version;
}

const Setting kSettings[] = {
    {"Eager", "method: eager\ninner_steps: 4\nmax_late: 0\n"},
    {"Streaming", "method: streaming\ninner_steps: 4\noverlap: 2\n"},
    {"DataParallel", "method: data-parallel\n"},
};

INSTANTIATE_TEST_SUITE_P(Methods, SimulateProgramTest, ::testing::ValuesIn(kSettings),
                         [](const ::testing::TestParamInfo<Setting>& setting) { return setting.param.name; });

}  // namespace
}  // namespace diloco
