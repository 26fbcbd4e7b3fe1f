// What a caller hears that names another run.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace diloco {

inline absl::Status AnotherRun(const std::string& asked, const std::string& here) {
  return absl::NotFoundError(absl::StrFormat("run \"%s\" is not here: this coordinator has run \"%s\"", asked, here));
}

}  // namespace diloco
