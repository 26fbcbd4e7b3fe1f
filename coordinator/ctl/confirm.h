// Before a command that cannot be taken back.
#pragma once

#include <string>

#include "absl/status/status.h"

#include "coordinator/ctl/command.h"

namespace diloco {

// OK when --yes was given, or whoever sits at the terminal says so. `what`: a sentence, without a stop.
// Errors: kInvalidArgument: there is no terminal to ask at; kCancelled: the answer was another.
absl::Status Confirm(const CtlIo& io, bool yes, const std::string& what);

}  // namespace diloco
