#include <cstdint>
#include <memory>
#include <string>

#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/flags.h"
#include "coordinator/ctl/show.h"
#include "coordinator/ctl/views.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

absl::StatusOr<ExitCode> Run(const CommandContext& context, const std::string& text) {
  DILOCO_ASSIGN_OR_RETURN(const int64_t number, ParseRound(text));
  DILOCO_ASSIGN_OR_RETURN(const v1::DescribeRoundResponse round, context.client.DescribeRound(number));
  Show(context, round, RoundText(round));
  return ExitCode::kOk;
}

Action Declare(CLI::App& app) {
  auto round = std::make_shared<std::string>();
  app.add_option("ROUND", *round, "Number of the round")->required()->check(CLI::Range(int64_t{0}, INT64_MAX));
  return [round](const CommandContext& context) { return Run(context, *round); };
}

}  // namespace

Command RoundDescribeCommand() {
  return {.path = "round describe",
          .summary = "One round in full, with the reason why it has not closed",
          .examples = "dilococtl round describe 42\n"
                      "dilococtl -o json round describe 42",
          .declare = &Declare};
}

}  // namespace diloco
