#include "common/base/status_macros.h"
#include "coordinator/ctl/command.h"
#include "coordinator/ctl/json_output.h"
#include "coordinator/ctl/views.h"

namespace diloco {

absl::StatusOr<ExitCode> RunCheckpointSave(const CommandContext& context) {
  DILOCO_ASSIGN_OR_RETURN(const v1::SaveCheckpointResponse saved, context.client.SaveCheckpoint());
  context.io.out(context.format == OutputFormat::kJson ? ToJson(saved, JsonStyle::kIndented) : CheckpointText(saved));
  return ExitCode::kOk;
}

}  // namespace diloco
