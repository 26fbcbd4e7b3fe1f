#include <cstdint>
#include <memory>
#include <string>

#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/flags.h"
#include "coordinator/ctl/views.h"
#include "coordinator/ctl/watch.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

struct Flags {
  std::string round;
  WatchFlags watch;
};

absl::StatusOr<ExitCode> Run(const CommandContext& context, const Flags& flags) {
  DILOCO_ASSIGN_OR_RETURN(const int64_t round, ParseRound(flags.round));
  return ShowOrWatch(
      context, flags.watch, [&] { return context.client.DescribeRound(round); }, &RoundText,
      [](const v1::DescribeRoundResponse& seen) { return seen.summary().state() == v1::ROUND_STATE_COMMITTED; });
}

Action Declare(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("ROUND", flags->round, "Number of the round")->required()->check(CLI::Range(int64_t{0}, INT64_MAX));
  AddWatchFlags(app, flags->watch);
  return [flags](const CommandContext& context) { return Run(context, *flags); };
}

}  // namespace

Command RoundDescribeCommand() {
  return {.path = "round describe",
          .summary = "One round in full, with the reason why it has not closed",
          .examples =
              "dilococtl round describe 42\n"
              "dilococtl round describe 42 --watch    until it has committed\n"
              "dilococtl -o json round describe 42",
          .declare = &Declare};
}

}  // namespace diloco
