#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/flags.h"
#include "coordinator/ctl/show.h"
#include "coordinator/ctl/status_watch.h"
#include "coordinator/ctl/views.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

struct Flags {
  bool watch = false;
  std::string interval = "2s";
};

absl::StatusOr<ExitCode> Run(const CommandContext& context, const Flags& flags) {
  DILOCO_ASSIGN_OR_RETURN(const absl::Duration interval, ParseWait("--interval", flags.interval));
  if (flags.watch) return WatchStatus(context, interval);
  DILOCO_ASSIGN_OR_RETURN(const v1::GetStatusResponse status, context.client.GetStatus());
  Show(context, status, StatusText(status));
  const std::optional<std::string> held = Held(status);
  if (!held.has_value()) return ExitCode::kOk;
  context.io.err(absl::StrFormat("dilococtl: the run is held: %s\n", *held));
  return ExitCode::kUnhealthy;
}

Action Declare(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_flag("--watch", flags->watch, "Follow the run until it has ended, then sum it up");
  app.add_option("--interval", flags->interval, "Between two looks of --watch")->capture_default_str();
  return [flags](const CommandContext& context) { return Run(context, *flags); };
}

}  // namespace

Command StatusCommand() {
  return {.path = "status",
          .summary = "The run at a glance",
          .examples = "dilococtl status\n"
                      "dilococtl status --watch --interval 10s\n"
                      "dilococtl -o json status | jq .rounds_committed",
          .declare = &Declare};
}

}  // namespace diloco
