// A worker, from the first call to the coordinator to the end of the run. The calling thread becomes the training
// thread; the sync thread and the control thread live for as long as the call.
#pragma once

#include "absl/status/status.h"

#include "worker/loop/worker_options.h"

namespace diloco {

// Returns when the run has ended and the last report is taken. When an operator has replaced the consensus it forgets
// what it holds and joins again, as a new member, with a new trainer.
// Errors, each one sentence that says what to do: kUnavailable, the coordinator cannot be reached (at start, or later
// for longer than give_up_after); kNotFound, another run; kAlreadyExists, the id is in use; kFailedPrecondition,
// another layout, or the run has ended; kInvalidArgument, the id or the configuration; kDataLoss, the consensus is not
// the coordinator's; kCancelled, interrupted; or what the trainer said. With options.checkpoint_folder, a worker that
// ends by kCancelled or by a later kUnavailable has written a checkpoint, and stays a member until its lease ends.
absl::Status RunWorker(const WorkerOptions& options, const TrainerFactory& make_trainer);

}  // namespace diloco
