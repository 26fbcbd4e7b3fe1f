// dilococtl's commands that need no coordinator, run in this process.
#pragma once

#include <string>
#include <vector>

#include "coordinator/ctl/ctl.h"

namespace diloco {

struct Offline {
  std::string out;
  std::string err;

  // The exit code; what was printed is in `out` and `err`.
  int Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "dilococtl");
    std::vector<const char*> argv;
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    out.clear();
    err.clear();
    return RunCtl(
        static_cast<int>(argv.size()), argv.data(),
        {.out = [this](std::string_view text) { out += text; }, .err = [this](std::string_view text) { err += text; }});
  }
};

}  // namespace diloco
