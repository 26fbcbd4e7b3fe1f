#include <memory>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/confirm.h"
#include "coordinator/ctl/flags.h"
#include "coordinator/ctl/show.h"

namespace diloco {
namespace {

absl::StatusOr<ExitCode> Run(const CommandContext& context, bool yes) {
  DILOCO_RETURN_IF_ERROR(Confirm(context.io, yes,
                                 "the run ends for good with its oldest open round, and what workers have trained "
                                 "beyond that is lost"));
  DILOCO_ASSIGN_OR_RETURN(const v1::StopRunResponse response, context.client.StopRun());
  Show(context, response,
       Fields({{"run", response.run_id()},
               {"state", absl::StrFormat("stopped: it ends with %d rounds; `dilococtl status --watch` follows it",
                                         response.rounds())}}));
  return ExitCode::kOk;
}

Action Declare(CLI::App& app) {
  auto yes = std::make_shared<bool>(false);
  AddYesFlag(app, *yes);
  return [yes](const CommandContext& context) { return Run(context, *yes); };
}

}  // namespace

Command RunStopCommand() {
  return {.path = "run stop",
          .summary = "End the run with its oldest open round: final checkpoint, workers leave, as at its natural end",
          .examples =
              "dilococtl run stop\n"
              "dilococtl run stop --yes",
          .declare = &Declare};
}

}  // namespace diloco
