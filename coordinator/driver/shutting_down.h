// What a caller hears from a coordinator that stops.
#pragma once

#include "absl/status/status.h"

namespace diloco {

inline absl::Status ShuttingDown() {
  return absl::UnavailableError("the coordinator is shutting down; try again when it is back");
}

}  // namespace diloco
