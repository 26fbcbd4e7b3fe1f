#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/show.h"
#include "coordinator/ctl/views.h"

namespace diloco {
namespace {

absl::StatusOr<ExitCode> Run(const CommandContext& context) {
  DILOCO_ASSIGN_OR_RETURN(const v1::ListCheckpointsResponse checkpoints, context.client.ListCheckpoints());
  Show(context, checkpoints, CheckpointListText(checkpoints));
  return ExitCode::kOk;
}

Action Declare(CLI::App&) { return &Run; }

}  // namespace

Command CheckpointListCommand() {
  return {.path = "checkpoint list",
          .summary = "Checkpoints on the coordinator's disk, newest first",
          .examples =
              "dilococtl checkpoint list\n"
              "dilococtl -o json checkpoint list | jq -r '.checkpoints[0].path'",
          .declare = &Declare};
}

}  // namespace diloco
