#include <memory>

#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/watch.h"
#include "coordinator/ctl/worker_views.h"

namespace diloco {
namespace {

absl::StatusOr<ExitCode> Run(const CommandContext& context, const WatchFlags& flags) {
  return ShowOrWatch(
      context, flags, [&] { return context.client.ListWorkers(); }, &WorkerListText);
}

Action Declare(CLI::App& app) {
  auto flags = std::make_shared<WatchFlags>();
  AddWatchFlags(app, *flags);
  return [flags](const CommandContext& context) { return Run(context, *flags); };
}

}  // namespace

Command WorkerListCommand() {
  return {.path = "worker list",
          .summary = "Workers and what each reported last",
          .examples =
              "dilococtl worker list\n"
              "dilococtl worker list -o wide\n"
              "dilococtl --coordinator 10.0.0.5:7070 worker list --watch\n"
              "dilococtl -o json worker list | jq '.workers[].progress.loss'",
          .declare = &Declare};
}

}  // namespace diloco
