// Trajectories through real processes: a coordinator, one worker process for each worker, gRPC over loopback, fp32 both
// ways. Each worker's parameters follow the trajectory, and the consensus has the same bits everywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
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
#include "tests/support/trajectories.h"

namespace diloco {
namespace {

using nlohmann::json;
using testing::CoordinatorProcess;
using testing::kPatience;
using testing::Process;
using testing::TempFolder;
using testing::Trajectory;

std::vector<Trajectory> LockstepTrajectories() {
  absl::StatusOr<std::vector<Trajectory>> all = testing::LoadTrajectories(testing::TrajectoriesPath());
  if (!all.ok()) {
    ADD_FAILURE() << all.status();
    return {};
  }
  std::erase_if(*all, [](const Trajectory& trajectory) { return !trajectory.lockstep(); });
  return *std::move(all);
}

// What one worker wrote: its parameters after each round or step, from 0, and consensus digests by (fragment, version).
struct Trace {
  std::map<int64_t, std::vector<double>> theta;
  std::map<std::pair<int, int64_t>, std::string> digests;
};

// JSON carries bytes in base64.
std::string HexOf(const std::string& base64) {
  std::string bytes;
  EXPECT_TRUE(absl::Base64Unescape(base64, &bytes)) << base64;
  return Digest::FromBytes(bytes).Hex();
}

Trace ReadTrace(const std::string& path, bool streaming) {
  Trace trace;
  std::istringstream lines(testing::ReadFile(path));
  for (std::string line; std::getline(lines, line);) {
    const json entry = json::parse(line);
    if (!streaming && entry.contains("theta"))
      trace.theta[entry.at("round")] = entry.at("theta").get<std::vector<double>>();
    if (streaming && entry.contains("parameters")) {
      trace.theta[entry.at("step").get<int64_t>() - 1] = entry.at("parameters").get<std::vector<double>>();
    }
    if (entry.contains("digest")) trace.digests[{entry.at("fragment"), entry.at("version")}] = entry.at("digest");
  }
  return trace;
}

class TrajectoryProcessTest : public ::testing::TestWithParam<Trajectory> {};

TEST_P(TrajectoryProcessTest, WorkerProcessesFollowIt) {
  const Trajectory& trajectory = GetParam();
  const TempFolder folder;
  CoordinatorProcess coordinator(folder.path(), trajectory.ConfigYaml("trajectory"));
  ASSERT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  std::vector<Process> workers;
  for (int m = 0; m < trajectory.workers; ++m) {
    absl::StatusOr<Process> worker =
        Process::Start({.arguments = {DILOCO_SYNTHETIC_WORKER, "--coordinator", coordinator.address(), "--id",
                                      absl::StrFormat("w%d", m), "--vectors", testing::TrajectoriesPath(), "--case",
                                      absl::StrFormat("%d", trajectory.index), "--worker", absl::StrFormat("%d", m),
                                      "--trace", folder.File(absl::StrFormat("w%d.jsonl", m))},
                        .output_path = folder.File(absl::StrFormat("w%d.log", m))});
    ASSERT_TRUE(worker.ok()) << worker.status();
    workers.push_back(*std::move(worker));
  }
  for (int m = 0; m < trajectory.workers; ++m) {
    const absl::StatusOr<int> exit_code = workers[static_cast<size_t>(m)].Wait(kPatience);
    ASSERT_TRUE(exit_code.ok() && *exit_code == 0)
        << exit_code.status() << testing::ReadFile(folder.File(absl::StrFormat("w%d.log", m))) << coordinator.Log();
  }

  std::vector<Trace> traces;
  for (int m = 0; m < trajectory.workers; ++m) {
    traces.push_back(ReadTrace(folder.File(absl::StrFormat("w%d.jsonl", m)), trajectory.streaming()));
  }
  for (int64_t t = 0; t < static_cast<int64_t>(trajectory.theta.size()); ++t) {
    const std::vector<testing::Vector>& expected = trajectory.theta[static_cast<size_t>(t)];
    const double tolerance = testing::Tolerance(expected);
    for (int m = 0; m < trajectory.workers; ++m) {
      const Trace& trace = traces[static_cast<size_t>(m)];
      ASSERT_TRUE(trace.theta.contains(t)) << "worker " << m << " wrote nothing at " << t;
      for (size_t i = 0; i < expected[static_cast<size_t>(m)].size(); ++i) {
        EXPECT_NEAR(trace.theta.at(t).at(i), expected[static_cast<size_t>(m)][i], tolerance)
            << "at " << t << " worker " << m << " element " << i;
      }
    }
  }
  // The coordinator's digests come from its commit records: version r in the record of a later round.
  int compared = 0;
  for (int64_t t = 0; t < trajectory.rounds; ++t) {
    const absl::StatusOr<json> round = coordinator.Ctl({"round", "describe", absl::StrFormat("%d", t)});
    ASSERT_TRUE(round.ok()) << round.status();
    for (const json& fragment : round->at("fragments")) {
      const int index = fragment.at("fragment").get<int>();
      const int64_t version = std::stoll(fragment.at("consensus_version").get<std::string>());
      const std::string digest = HexOf(fragment.at("consensus_digest").at("value"));
      for (const Trace& trace : traces) {
        ASSERT_TRUE(trace.digests.contains({index, version})) << "version " << version;
        EXPECT_EQ(trace.digests.at({index, version}), digest) << "version " << version;
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, trajectory.rounds * trajectory.workers);
  for (int64_t version = 0; version <= trajectory.rounds; ++version) {
    for (const Trace& trace : traces) {
      ASSERT_TRUE(trace.digests.contains({0, version})) << version;
      EXPECT_EQ(trace.digests.at({0, version}), traces[0].digests.at({0, version})) << version;
    }
  }
  const absl::StatusOr<int> stopped = coordinator.Stop();
  EXPECT_TRUE(stopped.ok() && *stopped == 0) << coordinator.Log();
}

INSTANTIATE_TEST_SUITE_P(Cases, TrajectoryProcessTest, ::testing::ValuesIn(LockstepTrajectories()),
                         [](const ::testing::TestParamInfo<Trajectory>& parameter) {
                           return absl::StrFormat("%s%d", parameter.param.method, parameter.param.index);
                         });

}  // namespace
}  // namespace diloco
