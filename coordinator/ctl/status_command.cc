#include <memory>
#include <optional>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/show.h"
#include "coordinator/ctl/status_watch.h"
#include "coordinator/ctl/views.h"
#include "coordinator/ctl/watch.h"

namespace diloco {
namespace {

absl::StatusOr<ExitCode> Run(const CommandContext& context, const WatchFlags& flags) {
  DILOCO_ASSIGN_OR_RETURN(const absl::Duration interval, IntervalOf(flags));
  if (flags.watch) return WatchStatus(context, interval);
  DILOCO_ASSIGN_OR_RETURN(const v1::GetStatusResponse status, context.client.GetStatus());
  Show(context, status, StatusText(status, ViewOf(context)));
  const std::optional<std::string> held = Held(status);
  if (!held.has_value()) return ExitCode::kOk;
  context.io.err(absl::StrFormat("dilococtl: the run does not go on: %s\n", *held));
  return ExitCode::kUnhealthy;
}

Action Declare(CLI::App& app) {
  auto flags = std::make_shared<WatchFlags>();
  AddWatchFlags(app, *flags);
  return [flags](const CommandContext& context) { return Run(context, *flags); };
}

}  // namespace

Command StatusCommand() {
  return {.path = "status",
          .summary = "The run at a glance; with --watch until it has ended, then summed up",
          .examples =
              "dilococtl status\n"
              "dilococtl status --watch --interval 10s\n"
              "dilococtl -o json status | jq .rounds_committed",
          .declare = &Declare};
}

}  // namespace diloco
