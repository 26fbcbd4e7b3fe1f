#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/show.h"
#include "coordinator/ctl/views.h"

namespace diloco {
namespace {

absl::StatusOr<ExitCode> Run(const CommandContext& context) {
  DILOCO_ASSIGN_OR_RETURN(const v1::GetConfigResponse config, context.client.GetConfig());
  Show(context, config, RunningConfigText(config));
  return ExitCode::kOk;
}

Action Declare(CLI::App&) { return &Run; }

}  // namespace

Command ConfigShowCommand() {
  return {
      .path = "config show",
      .summary = "The running configuration, as a file that the coordinator takes, with what was changed on the way",
      .examples =
          "dilococtl config show\n"
          "dilococtl config show > run.yaml\n"
          "dilococtl -o json config show | jq -r '.changeable_keys[]'",
      .declare = &Declare};
}

}  // namespace diloco
