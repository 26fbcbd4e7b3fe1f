#include "coordinator/ctl/flags.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

#include "common/base/name.h"
#include <CLI/CLI.hpp>

namespace diloco {

void AddWorkerArgument(CLI::App& app, std::string& worker) {
  app.add_option("NAME", worker, "Id of the worker")
      ->required()
      ->check([](const std::string& name) { return std::string(ValidateName("a worker's id", name).message()); }, "");
}

void AddYesFlag(CLI::App& app, bool& yes) { app.add_flag("--yes", yes, "Do not ask"); }

absl::StatusOr<absl::Duration> ParseWait(const std::string& flag, const std::string& text) {
  absl::Duration duration;
  if (absl::ParseDuration(text, &duration) && duration >= absl::Milliseconds(10) && duration <= absl::Hours(1)) {
    return duration;
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("%s %s: use a duration such as 500ms or 10s, 10ms to 1h", flag, text));
}

absl::StatusOr<int64_t> ParseRound(const std::string& text) {
  int64_t round = 0;  // Not left to CLI11, which reads a number that is too large as 0.
  if (absl::SimpleAtoi(text, &round) && round >= 0) return round;
  return absl::InvalidArgumentError(absl::StrFormat("ROUND %s: use the number of a round, 0 or more", text));
}

}  // namespace diloco
