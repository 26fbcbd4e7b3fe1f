#include "common/command_line/log_flags.h"

#include "absl/strings/str_format.h"

#include <CLI/CLI.hpp>

namespace diloco {

void AddLogFlags(CLI::App& app, LogOptions* options) {
  app.add_option("--log-level", options->level, absl::StrFormat("One of %s", kLogLevels))
      ->envname("DILOCO_LOG_LEVEL")
      ->capture_default_str();
  app.add_option("--log-format", options->format, absl::StrFormat("One of %s; json: an object a line", kLogFormats))
      ->envname("DILOCO_LOG_FORMAT")
      ->capture_default_str();
}

}  // namespace diloco
