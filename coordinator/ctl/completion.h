// Completion of command lines by a shell.
#pragma once

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace diloco {

// A script for bash that completes what `app`'s tree has: nouns, verbs, flags, and the values of flags that take one of
// some words; files, where help calls a value or an argument FILE, DIR or PATH. `app`'s name is the program's.
std::string BashCompletion(CLI::App& app);

}  // namespace diloco
