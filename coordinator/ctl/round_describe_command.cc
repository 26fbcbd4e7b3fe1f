#include "common/base/status_macros.h"
#include "coordinator/ctl/command.h"
#include "coordinator/ctl/json_output.h"
#include "coordinator/ctl/views.h"

namespace diloco {

absl::StatusOr<ExitCode> RunRoundDescribe(const CommandContext& context, int64_t round) {
  DILOCO_ASSIGN_OR_RETURN(const v1::DescribeRoundResponse response, context.client.DescribeRound(round));
  context.io.out(context.format == OutputFormat::kJson ? ToJson(response, JsonStyle::kIndented) : RoundText(response));
  return ExitCode::kOk;
}

}  // namespace diloco
