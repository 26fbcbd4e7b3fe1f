#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/show.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

absl::StatusOr<ExitCode> Run(const CommandContext& context, int64_t rounds) {
  DILOCO_ASSIGN_OR_RETURN(const v1::ExtendRunResponse response, context.client.ExtendRun(rounds));
  const std::string schedule = response.from_round() == 0
                                   ? "as before: the run has that length already"
                                   : absl::StrFormat("over the new length from round %d on", response.from_round());
  Show(context, response,
       Fields({{"run", response.run_id()},
               {"rounds", absl::StrFormat("%d", response.rounds())},
               {"inner schedule", schedule}}));
  return ExitCode::kOk;
}

Action Declare(CLI::App& app) {
  auto rounds = std::make_shared<int64_t>(0);
  app.add_option("--rounds", *rounds, "Rounds in all; the same again changes nothing")
      ->required()
      ->check(CLI::Range(int64_t{1}, kMaxRounds));
  return [rounds](const CommandContext& context) { return Run(context, *rounds); };
}

}  // namespace

Command RunExtendCommand() {
  return {.path = "run extend",
          .summary = "Make the run longer, before it has ended",
          .examples = "dilococtl run extend --rounds 200",
          .declare = &Declare};
}

}  // namespace diloco
