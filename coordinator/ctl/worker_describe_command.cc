#include <memory>
#include <string>

#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/flags.h"
#include "coordinator/ctl/watch.h"
#include "coordinator/ctl/worker_views.h"

namespace diloco {
namespace {

struct Flags {
  std::string worker;
  WatchFlags watch;
};

absl::StatusOr<ExitCode> Run(const CommandContext& context, const Flags& flags) {
  return ShowOrWatch(
      context, flags.watch, [&] { return context.client.DescribeWorker(flags.worker); }, &WorkerText);
}

Action Declare(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  AddWorkerArgument(app, flags->worker);
  AddWatchFlags(app, flags->watch);
  return [flags](const CommandContext& context) { return Run(context, *flags); };
}

}  // namespace

Command WorkerDescribeCommand() {
  return {.path = "worker describe",
          .summary = "Everything that is known of one worker, and what the open rounds have of it",
          .examples =
              "dilococtl worker describe west\n"
              "dilococtl worker describe west --watch\n"
              "dilococtl -o json worker describe west | jq '.rounds[].state'",
          .declare = &Declare};
}

}  // namespace diloco
