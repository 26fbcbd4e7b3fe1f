#include "tests/support/paths.h"

namespace diloco::testing {

std::string SourcePath(const std::string& path) { return DILOCO_SOURCE_DIR "/" + path; }

std::string Program(const std::string& name) { return DILOCO_BIN_DIR "/" + name; }

}  // namespace diloco::testing
