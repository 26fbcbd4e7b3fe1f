// `dilococtl plan`: what a run would take, before there is one. It asks no coordinator.
#pragma once

#include "absl/status/statusor.h"

#include "common/base/exit_code.h"
#include "coordinator/ctl/command.h"

namespace CLI {
class App;
}  // namespace CLI

namespace diloco {

// As given on the command line.
struct PlanFlags {
  bool paper = false;
};

// Adds the command to `app`; what it parses goes into `flags`.
void AddPlanCommand(CLI::App& app, PlanFlags& flags);

absl::StatusOr<ExitCode> RunPlan(const PlanFlags& flags, OutputFormat format, const CtlIo& io);

}  // namespace diloco
