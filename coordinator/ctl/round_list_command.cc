#include <cstdint>
#include <memory>

#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/show.h"
#include "coordinator/ctl/views.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

constexpr uint32_t kMaxLimit = 1000;  // As admin.proto says.

absl::StatusOr<ExitCode> Run(const CommandContext& context, uint32_t limit) {
  DILOCO_ASSIGN_OR_RETURN(const v1::ListRoundsResponse rounds, context.client.ListRounds(limit));
  Show(context, rounds, RoundListText(rounds));
  return ExitCode::kOk;
}

Action Declare(CLI::App& app) {
  auto limit = std::make_shared<uint32_t>(20);
  app.add_option("--limit", *limit, "At most this many")->check(CLI::Range(1U, kMaxLimit))->capture_default_str();
  return [limit](const CommandContext& context) { return Run(context, *limit); };
}

}  // namespace

Command RoundListCommand() {
  return {.path = "round list",
          .summary = "Rounds, newest first",
          .examples = "dilococtl round list --limit 5\n"
                      "dilococtl -o json round list | jq '.rounds[].merged'",
          .declare = &Declare};
}

}  // namespace diloco
