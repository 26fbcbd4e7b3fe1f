#include <memory>
#include <optional>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "common/json/message_json.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/event_view.h"
#include "coordinator/ctl/events.h"
#include "coordinator/ctl/table.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

constexpr absl::Duration kRetryAfter = absl::Seconds(1);

bool CannotReach(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kDeadlineExceeded;
}

absl::StatusOr<ExitCode> Run(const CommandContext& context, bool watch) {
  const bool json = context.format == OutputFormat::kJson;
  if (!json) context.io.out(EventHeader());
  const auto show = [&](const v1::WatchEventsResponse& response) {
    context.io.out(json ? ToJson(response, JsonStyle::kOneLine) : EventLine(response));
    return true;
  };
  DILOCO_RETURN_IF_ERROR(watch ? FollowEvents(context, show) : context.client.WatchEvents({}, show));
  return ExitCode::kOk;
}

Action Declare(CLI::App& app) {
  auto watch = std::make_shared<bool>(false);
  app.add_flag("--watch", *watch, "Go on with what happens from now on");
  return [watch](const CommandContext& context) { return Run(context, *watch); };
}

}  // namespace

absl::Status FollowEvents(const CommandContext& context,
                          const std::function<bool(const v1::WatchEventsResponse&)>& take) {
  v1::WatchEventsRequest request;
  const CtlIo& io = context.io;
  request.set_follow(true);
  bool ended = false;
  bool enough = false;
  std::optional<MonotonicTime> lost_at;
  while (true) {
    const absl::Status status = context.client.WatchEvents(request, [&](const v1::WatchEventsResponse& response) {
      lost_at.reset();
      request.set_after(response.event().number());
      request.set_log_id(response.event().log_id());
      ended = ended || response.event().kind() == v1::EVENT_KIND_RUN_ENDED;
      enough = !take(response);
      return !enough;
    });
    if (enough || (ended && CannotReach(status))) return absl::OkStatus();
    if (!CannotReach(status)) return status;
    if (!lost_at) {
      lost_at = io.clock->Now();
      io.err(absl::StrFormat("dilococtl: %s; trying for %s\n", Printable(std::string(status.message())),
                             absl::FormatDuration(context.timeout)));
    }
    if (io.clock->Now() - *lost_at >= context.timeout) return status;
    io.pause(kRetryAfter);
  }
}

Command EventsCommand() {
  return {.path = "events",
          .summary = "What happened: the newest events that the coordinator keeps, a line each",
          .examples =
              "dilococtl events\n"
              "dilococtl events --watch\n"
              "dilococtl -o json events --watch | jq -r .event.text",
          .declare = &Declare};
}

}  // namespace diloco
