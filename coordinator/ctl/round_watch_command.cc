#include "common/base/status_macros.h"
#include "common/json/message_json.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/event_view.h"
#include "coordinator/ctl/events.h"

namespace diloco {
namespace {

absl::StatusOr<ExitCode> Run(const CommandContext& context) {
  const bool json = context.format == OutputFormat::kJson;
  if (!json) context.io.out(RoundHeader());
  DILOCO_RETURN_IF_ERROR(FollowEvents(context, [&](const v1::WatchEventsResponse& response) {
    const v1::Event& event = response.event();
    if (event.has_round()) context.io.out(json ? ToJson(event.round(), JsonStyle::kOneLine) : RoundLine(event.round()));
    return event.kind() != v1::EVENT_KIND_RUN_ENDED;
  }));
  return ExitCode::kOk;
}

Action Declare(CLI::App&) { return &Run; }

}  // namespace

Command RoundWatchCommand() {
  return {.path = "round watch",
          .summary = "Rounds as they commit, those that are remembered first, to the run's end",
          .examples =
              "dilococtl round watch\n"
              "dilococtl -o json round watch | jq -c '[.round, .merged]'",
          .declare = &Declare};
}

}  // namespace diloco
