#include "common/base/status_macros.h"
#include "coordinator/ctl/command.h"
#include "coordinator/ctl/json_output.h"
#include "coordinator/ctl/views.h"

namespace diloco {

absl::StatusOr<ExitCode> RunRoundList(const CommandContext& context, uint32_t limit) {
  DILOCO_ASSIGN_OR_RETURN(const v1::ListRoundsResponse rounds, context.client.ListRounds(limit));
  context.io.out(context.format == OutputFormat::kJson ? ToJson(rounds, JsonStyle::kIndented) : RoundListText(rounds));
  return ExitCode::kOk;
}

}  // namespace diloco
