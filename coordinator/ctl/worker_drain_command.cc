#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "coordinator/ctl/command.h"
#include "coordinator/ctl/confirm.h"
#include "coordinator/ctl/json_output.h"
#include "coordinator/ctl/views.h"

namespace diloco {

absl::StatusOr<ExitCode> RunWorkerDrain(const CommandContext& context, const std::string& worker, bool yes) {
  DILOCO_RETURN_IF_ERROR(
      Confirm(context.io, yes, absl::StrFormat("worker %s finishes its round and leaves the run", worker)));
  DILOCO_ASSIGN_OR_RETURN(const v1::DrainWorkerResponse response, context.client.DrainWorker(worker));
  context.io.out(context.format == OutputFormat::kJson ? ToJson(response, JsonStyle::kIndented) : DrainText(response));
  return ExitCode::kOk;
}

}  // namespace diloco
