#include "common/base/status_macros.h"
#include "coordinator/ctl/command.h"
#include "coordinator/ctl/json_output.h"
#include "coordinator/ctl/views.h"

namespace diloco {

absl::StatusOr<ExitCode> RunWorkerList(const CommandContext& context) {
  DILOCO_ASSIGN_OR_RETURN(const v1::ListWorkersResponse workers, context.client.ListWorkers());
  context.io.out(context.format == OutputFormat::kJson ? ToJson(workers, JsonStyle::kIndented)
                                                       : WorkerListText(workers));
  return ExitCode::kOk;
}

}  // namespace diloco
