// The run's configuration as a file.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace diloco {

// What `--config` names, whole. Errors, kInvalidArgument: it cannot be read, or is larger than kMaxConfigBytes.
absl::StatusOr<std::string> ReadConfigFile(const std::string& path);

}  // namespace diloco
