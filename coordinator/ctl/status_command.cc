#include <optional>
#include <string>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "coordinator/ctl/command.h"
#include "coordinator/ctl/json_output.h"
#include "coordinator/ctl/views.h"

namespace diloco {

absl::StatusOr<ExitCode> RunStatus(const CommandContext& context) {
  DILOCO_ASSIGN_OR_RETURN(const v1::GetStatusResponse status, context.client.GetStatus());
  context.io.out(context.format == OutputFormat::kJson ? ToJson(status, JsonStyle::kIndented) : StatusText(status));
  const std::optional<std::string> held = Held(status);
  if (!held.has_value()) return ExitCode::kOk;
  context.io.err(absl::StrFormat("dilococtl: the run is held: %s\n", *held));
  return ExitCode::kUnhealthy;
}

}  // namespace diloco
