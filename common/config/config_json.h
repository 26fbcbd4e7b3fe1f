// The run's configuration for people and programs that read it: every setting, defaults filled in.
#pragma once

#include <string>

#include "common/config/run_config.h"

namespace diloco {

// An object of the file's sections and keys, indented: numbers are numbers, durations text such as "30s", and a setting
// that is a word is the word. Sections of other methods are left out. Ends with a newline.
std::string ConfigJson(const RunConfig& config);

// The same as `section.key  value` lines.
std::string ConfigText(const RunConfig& config);

}  // namespace diloco
