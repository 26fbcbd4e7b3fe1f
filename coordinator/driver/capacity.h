// Whether a model fits the coordinator's bounds, asked before a run is laid out for it. Pure.
#pragma once

#include "absl/status/status.h"

#include "common/config/run_config.h"
#include "common/layout/layout.h"

namespace diloco {

// What all workers of the run may have staged at once is within kMaxStagedBytes: else the newer rounds could take the
// room that the oldest needs to close. And two rounds of global deltas fit a subscriber's queue
// (kMaxSubscriberQueueBytes): else one that still reads a round would be sent for a snapshot with each that follows.
// And one message can list what all workers have open at once, as the end record may have to.
// Errors: kFailedPrecondition with the numbers and what to change.
absl::Status CheckCapacity(const RunConfig& config, const Layout& layout);

}  // namespace diloco
