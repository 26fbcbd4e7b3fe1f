#include "common/command_line/usage_error.h"

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

#include <CLI/CLI.hpp>

namespace diloco {

absl::Status UsageError(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  const std::string what = unknown.empty() ? error.what() : "unknown argument " + unknown.front();
  const std::string line = absl::StrReplaceAll(what, {{"\n", " "}, {"\r", " "}});
  return absl::InvalidArgumentError(absl::StrFormat("%s; see %s --help", line, app.get_name()));
}

}  // namespace diloco
