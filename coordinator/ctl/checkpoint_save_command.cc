#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/show.h"
#include "coordinator/ctl/views.h"

namespace diloco {
namespace {

absl::StatusOr<ExitCode> Run(const CommandContext& context) {
  DILOCO_ASSIGN_OR_RETURN(const v1::SaveCheckpointResponse saved, context.client.SaveCheckpoint());
  Show(context, saved, CheckpointText(saved));
  return ExitCode::kOk;
}

Action Declare(CLI::App&) { return &Run; }

}  // namespace

Command CheckpointSaveCommand() {
  return {.path = "checkpoint save",
          .summary = "Write model.safetensors and run.yaml on the coordinator's disk",
          .examples =
              "dilococtl checkpoint save\n"
              "dilococtl --timeout 5m checkpoint save",
          .declare = &Declare};
}

}  // namespace diloco
