#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/show.h"
#include "coordinator/ctl/views.h"

namespace diloco {
namespace {

absl::StatusOr<ExitCode> Run(const CommandContext& context) {
  DILOCO_ASSIGN_OR_RETURN(const v1::ListWorkersResponse workers, context.client.ListWorkers());
  Show(context, workers, WorkerListText(workers));
  return ExitCode::kOk;
}

Action Declare(CLI::App&) { return &Run; }

}  // namespace

Command WorkerListCommand() {
  return {.path = "worker list",
          .summary = "Workers and what each reported last",
          .examples = "dilococtl worker list\n"
                      "dilococtl --coordinator 10.0.0.5:7070 worker list\n"
                      "dilococtl -o json worker list | jq '.workers[].progress.loss'",
          .declare = &Declare};
}

}  // namespace diloco
