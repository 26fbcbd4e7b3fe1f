// Where the tree and the built programs lie. Only this file's source knows, so that no other test's compiler flags name
// a folder.
#pragma once

#include <string>

namespace diloco::testing {

// A file of the source tree, such as "deploy/demo.yaml".
std::string SourcePath(const std::string& path);

// A built program, such as "dilococtl".
std::string Program(const std::string& name);

}  // namespace diloco::testing
