// What a program says about a command line that CLI11 refused.
#pragma once

#include "absl/status/status.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace diloco {

// kInvalidArgument: one sentence that names what is wrong and ends in "see PROGRAM --help". An argument that nothing
// takes comes before all else: `--confg run.yaml` is a mistyped flag, not an absent --config.
absl::Status UsageError(const CLI::App& app, const CLI::ParseError& error);

}  // namespace diloco
