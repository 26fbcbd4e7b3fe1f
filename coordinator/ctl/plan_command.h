// `dilococtl plan`: what a run would take, before there is one. It asks no coordinator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/base/exit_code.h"
#include "coordinator/ctl/command.h"

namespace CLI {
class App;
}  // namespace CLI

namespace diloco {

// As given on the command line; "" and 0 where nothing was.
struct PlanFlags {
  bool paper = false;
  std::string preset;
  int layers = 0;
  double parameters = 0;
  double step_seconds = 0;
  std::vector<std::string> up;
  std::vector<std::string> down;
  std::vector<std::string> latency;
  std::string ingress = "unlimited";
  std::string egress = "unlimited";
  std::string merge_rate = "unlimited";
  int workers = 0;
  std::vector<std::string> methods;
  std::vector<int64_t> inner_steps;
  int64_t overlap_steps = 1;
  int overlap_rounds = 1;
  int max_late = 1;
  int fragments = 8;
  int layers_each = 3;
  std::string uplink;
  std::string downlink;
  std::string plot;
};

// Adds the command to `app`; what it parses goes into `flags`.
void AddPlanCommand(CLI::App& app, PlanFlags& flags);

// Errors: kInvalidArgument for flags that are wrong or contradict each other; those of writing the plot.
absl::StatusOr<ExitCode> RunPlan(const PlanFlags& flags, OutputFormat format, const CtlIo& io);

}  // namespace diloco
