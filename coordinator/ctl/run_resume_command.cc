#include <string>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/show.h"

namespace diloco {
namespace {

absl::StatusOr<ExitCode> Run(const CommandContext& context) {
  DILOCO_ASSIGN_OR_RETURN(const v1::ResumeRunResponse response, context.client.ResumeRun());
  const std::string state = response.held().empty()
                                ? "not paused: rounds close"
                                : absl::StrFormat("not paused any more, but still held: %s", response.held());
  Show(context, response, Fields({{"run", response.run_id()}, {"state", state}}));
  return ExitCode::kOk;
}

Action Declare(CLI::App&) { return &Run; }

}  // namespace

Command RunResumeCommand() {
  return {.path = "run resume", .summary = "End a pause", .examples = "dilococtl run resume", .declare = &Declare};
}

}  // namespace diloco
