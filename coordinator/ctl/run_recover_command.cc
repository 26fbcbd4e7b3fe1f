#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "coordinator/ctl/command.h"
#include "coordinator/ctl/confirm.h"
#include "coordinator/ctl/json_output.h"
#include "coordinator/ctl/views.h"

namespace diloco {

absl::StatusOr<ExitCode> RunRecover(const CommandContext& context, const RecoverFlags& flags, bool yes) {
  v1::RecoverConsensusRequest request;
  request.set_worker_id(flags.from);
  request.set_discard_workers(flags.discard_workers);
  request.set_force(flags.force);
  request.set_dry_run(true);
  DILOCO_ASSIGN_OR_RETURN(v1::RecoverConsensusResponse response, context.client.RecoverConsensus(request));
  DILOCO_RETURN_IF_ERROR(Confirm(context.io, yes, RecoverSentence(request, response)));
  request.set_dry_run(false);
  DILOCO_ASSIGN_OR_RETURN(response, context.client.RecoverConsensus(request));
  context.io.out(context.format == OutputFormat::kJson ? ToJson(response, JsonStyle::kIndented)
                                                       : absl::StrFormat("%s; `dilococtl status` shows how far it is\n",
                                                                         RecoverSentence(request, response)));
  return ExitCode::kOk;
}

}  // namespace diloco
