// Help that begins with examples.
#pragma once

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace diloco {

// `--help` of this command shows `examples`, one a line, after the description and before everything else. They are
// not part of the description, which the parent's list of commands shows. Returns `command`.
CLI::App* ShowExamples(CLI::App* command, std::string examples);

}  // namespace diloco
