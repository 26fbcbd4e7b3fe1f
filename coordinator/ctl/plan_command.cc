#include "coordinator/ctl/plan_command.h"

#include "coordinator/ctl/plan_paper_view.h"
#include <CLI/CLI.hpp>

namespace diloco {

void AddPlanCommand(CLI::App& app, PlanFlags& flags) {
  CLI::App* plan =
      app.add_subcommand("plan", "What a run would take: bandwidth and utilization, without a coordinator");
  plan->add_flag("--paper", flags.paper, "The papers' tables beside this program's own figures")->required();
}

absl::StatusOr<ExitCode> RunPlan(const PlanFlags&, OutputFormat format, const CtlIo& io) {
  io.out(format == OutputFormat::kJson ? PaperPlanJson() : PaperPlanText());
  return ExitCode::kOk;
}

}  // namespace diloco
