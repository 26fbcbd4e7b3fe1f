#include "tests/load/load_run.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tests/support/coordinator_process.h"

namespace diloco::testing {
namespace {

using nlohmann::json;

constexpr absl::Duration kSampleEvery = absl::Milliseconds(200);
// The coordinator lists at most this many rounds.
constexpr int64_t kListedRounds = 1000;

std::string ConfigOf(const LoadOptions& options) {
  return absl::StrFormat(
      "run: {id: load, workers: %d, rounds: %d}\n"
      "method: eager\n"
      "inner_steps: %d\n"
      "fragments: {count: %d}\n"
      "wire: {uplink: %s, downlink: %s}\n"
      "rounds: {lease: 120s}\n",
      options.workers, options.rounds, options.inner_steps, options.fragments, options.uplink, options.downlink);
}

void KeepMost(const absl::StatusOr<ProcessFacts>& facts, ProcessFacts* most) {
  if (!facts.ok()) return;
  most->resident_bytes = std::max(most->resident_bytes, facts->resident_bytes);
  most->open_files = std::max(most->open_files, facts->open_files);
  most->threads = std::max(most->threads, facts->threads);
  most->cpu_seconds = std::max(most->cpu_seconds, facts->cpu_seconds);
}

int64_t Number(const json& value) { return std::stoll(value.get<std::string>()); }

// What the workers said at their end.
void ReadTrace(const std::string& path, LoadReport* report) {
  std::istringstream lines(ReadFile(path));
  int workers = 0;
  for (std::string text; std::getline(lines, text);) {
    const json line = json::parse(text);
    if (line.at("event") != "end") continue;
    ++workers;
    report->reconnects += line.at("reconnects").get<int64_t>();
    report->utilization += 1 - line.at("blocked_seconds").get<double>() / line.at("wall_seconds").get<double>();
  }
  report->utilization /= std::max(workers, 1);
}

absl::Status AskCoordinator(const CoordinatorProcess& coordinator, LoadReport* report) {
  DILOCO_ASSIGN_OR_RETURN(const json status, coordinator.Ctl({"status"}));
  report->rounds_committed = Number(status.at("rounds_committed"));
  report->received_bytes = Number(status.at("received_bytes"));
  report->sent_bytes = Number(status.at("sent_bytes"));
  DILOCO_ASSIGN_OR_RETURN(const json list, coordinator.Ctl({"round", "list", "--limit", absl::StrCat(kListedRounds)}));
  for (const json& round : list.at("rounds")) {
    ++report->rounds_listed;
    report->merged += round.at("merged").get<int64_t>();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadReport> RunLoad(const LoadOptions& options) {
  const TempFolder folder;
  CoordinatorProcess coordinator(folder.path(), ConfigOf(options));
  DILOCO_RETURN_IF_ERROR(coordinator.Start());
  const std::string trace = folder.File("trace.jsonl");
  const std::string log = folder.File("workers.log");
  DILOCO_ASSIGN_OR_RETURN(
      Process workers,
      Process::Start(
          {.arguments = {DILOCO_SYNTHETIC_WORKER, "--coordinator", coordinator.address(), "--id", "w", "--workers",
                         absl::StrCat(options.workers), "--elements", absl::StrCat(options.elements), "--tensors",
                         absl::StrCat(options.tensors), "--step-ms",
                         absl::StrCat(absl::ToInt64Milliseconds(options.step_time)), "--trace", trace},
           .output_path = log}));
  LoadReport report;
  absl::StatusOr<int> exit_code;
  // Many times what the steps take: the machine may be small, and busy.
  const absl::Duration steps = options.step_time * options.inner_steps * static_cast<double>(options.rounds);
  const absl::Time deadline = absl::Now() + 5 * kPatience + 20 * steps;
  while (!(exit_code = workers.Wait(kSampleEvery)).ok() && absl::Now() < deadline) {
    KeepMost(ReadProcessFacts(coordinator.process().pid()), &report.coordinator);
    KeepMost(ReadProcessFacts(workers.pid()), &report.workers);
  }
  if (!exit_code.ok() || *exit_code != 0) {
    return absl::UnknownError(absl::StrCat("the workers: ", exit_code.status().ToString(), ", exit code ",
                                           exit_code.value_or(-1), "\n", ReadFile(log), coordinator.Log()));
  }
  DILOCO_RETURN_IF_ERROR(AskCoordinator(coordinator, &report));
  ReadTrace(trace, &report);
  const std::string coordinator_log = coordinator.Log();
  const auto time_of = [&coordinator_log](const char* text) {
    absl::Time time;
    const size_t at = coordinator_log.find(text);
    const size_t line = coordinator_log.rfind('\n', at) + 1;
    std::string ignored;
    absl::ParseTime("time=%Y-%m-%dT%H:%M:%E3SZ", coordinator_log.substr(line, coordinator_log.find(' ', line) - line),
                    &time, &ignored);
    return time;
  };
  report.training = time_of("phase=ended") - time_of("phase=training");
  return report;
}

}  // namespace diloco::testing
