#include "common/base/status_macros.h"
#include "coordinator/ctl/command.h"
#include "coordinator/ctl/json_output.h"
#include "coordinator/ctl/views.h"

namespace diloco {

absl::StatusOr<ExitCode> RunWorkerAdmit(const CommandContext& context, const std::string& worker) {
  DILOCO_ASSIGN_OR_RETURN(const v1::AdmitWorkerResponse response, context.client.AdmitWorker(worker));
  context.io.out(context.format == OutputFormat::kJson ? ToJson(response, JsonStyle::kIndented) : AdmitText(response));
  return ExitCode::kOk;
}

}  // namespace diloco
