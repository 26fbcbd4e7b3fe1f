#include <cstdint>
#include <memory>

#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/views.h"
#include "coordinator/ctl/watch.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

constexpr uint32_t kMaxLimit = 1000;  // As admin.proto says.

struct Flags {
  uint32_t limit = 20;
  WatchFlags watch;
};

absl::StatusOr<ExitCode> Run(const CommandContext& context, const Flags& flags) {
  return ShowOrWatch(
      context, flags.watch, [&] { return context.client.ListRounds(flags.limit); }, &RoundListText);
}

Action Declare(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("--limit", flags->limit, "At most this many")->check(CLI::Range(1U, kMaxLimit))->capture_default_str();
  AddWatchFlags(app, flags->watch);
  return [flags](const CommandContext& context) { return Run(context, *flags); };
}

}  // namespace

Command RoundListCommand() {
  return {.path = "round list",
          .summary = "Rounds, newest first",
          .examples =
              "dilococtl round list\n"
              "dilococtl round list --limit 5 --watch\n"
              "dilococtl -o json round list | jq '.rounds[].merged'",
          .declare = &Declare};
}

}  // namespace diloco
