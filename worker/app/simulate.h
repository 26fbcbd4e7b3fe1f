// `diloco-worker simulate`, from flags to exit: trains all workers of a run in this process and writes what the service
// would reach with a fixed schedule, one JSON line for each evaluation.
#pragma once

#include <atomic>

#include "absl/status/status.h"

#include "worker/app/options.h"

namespace diloco {

// Set `interrupt` to leave after the current step. Errors, each one sentence: kInvalidArgument, the configuration, the
// workers, data, device, --init or --out; kFailedPrecondition, the configuration has no model; kCancelled; or what the
// trainer said.
absl::Status Simulate(const SimulateFlags& flags, const std::atomic<bool>* interrupt);

}  // namespace diloco
