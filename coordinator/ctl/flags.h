// Flags and arguments that several commands share, with what they may hold.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace CLI {
class App;
}  // namespace CLI

namespace diloco {

// A worker's id, required, and --yes for a command that asks first (see Confirm).
void AddWorkerArgument(CLI::App& app, std::string& worker);
void AddYesFlag(CLI::App& app, bool& yes);

// Errors of both: kInvalidArgument.
// A wait such as "500ms" or "10s", of 10 ms to an hour. `flag` names it in the error.
absl::StatusOr<absl::Duration> ParseWait(const std::string& flag, const std::string& text);
absl::StatusOr<int64_t> ParseRound(const std::string& text);

}  // namespace diloco
