#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "coordinator/ctl/command.h"
#include "coordinator/ctl/confirm.h"
#include "coordinator/ctl/json_output.h"
#include "coordinator/ctl/views.h"

namespace diloco {

absl::StatusOr<ExitCode> RunWorkerEvict(const CommandContext& context, const std::string& worker, bool yes) {
  DILOCO_RETURN_IF_ERROR(Confirm(context.io, yes,
                                 absl::StrFormat("worker %s is thrown out at once, and what it has sent for rounds "
                                                 "that have not closed is dropped",
                                                 worker)));
  DILOCO_ASSIGN_OR_RETURN(const v1::EvictWorkerResponse response, context.client.EvictWorker(worker));
  context.io.out(context.format == OutputFormat::kJson ? ToJson(response, JsonStyle::kIndented) : EvictText(response));
  return ExitCode::kOk;
}

}  // namespace diloco
