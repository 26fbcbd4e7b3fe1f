// Training, from flags to exit: checks what can be checked without the coordinator, then takes part in its run.
#pragma once

#include <atomic>

#include "absl/status/status.h"

#include "worker/app/options.h"

namespace diloco {

// Set `interrupt` to leave after the current step. Errors: those of RunWorker; kInvalidArgument, data, device or
// --init; kAlreadyExists, the HTTP port is in use; kFailedPrecondition, the run has no model that this program trains.
absl::Status Train(const WorkerFlags& flags, const std::atomic<bool>* interrupt);

}  // namespace diloco
