#include "common/command_line/trace_flag.h"

#include <CLI/CLI.hpp>

namespace diloco {

void AddTraceFlag(CLI::App& app, std::string* path) {
  app.add_option("--trace", *path, "File for a trace of this process, for ui.perfetto.dev; replaced if it exists")
      ->envname("DILOCO_TRACE");
}

}  // namespace diloco
