#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/show.h"

namespace diloco {
namespace {

absl::StatusOr<ExitCode> Run(const CommandContext& context) {
  DILOCO_ASSIGN_OR_RETURN(const v1::PauseRunResponse response, context.client.PauseRun());
  Show(context, response,
       Fields({{"run", response.run_id()}, {"state", "paused: no round closes until `dilococtl run resume`"}}));
  return ExitCode::kOk;
}

Action Declare(CLI::App&) { return &Run; }

}  // namespace

Command RunPauseCommand() {
  return {.path = "run pause",
          .summary = "Let no round close, until `run resume`; workers train on within max_late, then wait",
          .examples = "dilococtl run pause",
          .declare = &Declare};
}

}  // namespace diloco
