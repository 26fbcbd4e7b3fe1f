// All that a worker needs to go on where it was, as it lies in memory. PURE.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "diloco/v1/checkpoint.pb.h"
#include "worker/checkpoint/checkpoint_file.h"
#include "worker/outer/replica.h"
#include "worker/sync/sync_state.h"

namespace diloco {

// What the training thread holds.
struct TrainingState {
  ReplicaState replica;
  struct Progress {
    int64_t version = 0;    // In the parameters.
    int64_t published = 0;  // Newest version received, as of the last stop that set.
  };
  std::vector<Progress> progress;  // By fragment.
};

// One consistent cut: `sync` is as of everything that the training thread had handed over.
struct WorkerCheckpoint {
  TrainingState training;
  SyncState sync;
  uint32_t generation = 0;  // JoinResponse.generation of the member that wrote it.
};

// Who writes, or reads, a checkpoint. The pointers outlive its use.
struct CheckpointOwner {
  std::string worker_id;
  uint64_t incarnation = 0;
  const RunConfig* config = nullptr;
  const Layout* layout = nullptr;
  uint32_t generation = 0;  // Of a writer: JoinResponse.generation.
};

// The content of its file. The sections are views of `checkpoint`.
CheckpointContent DescribeCheckpoint(const CheckpointOwner& owner, const WorkerCheckpoint& checkpoint);

// Whether `owner` may go on from it. Errors, kFailedPrecondition, with what to do: of another run, worker or layout
// (naming the first tensor that differs), or of another method, codec or other setting that is fixed for a run.
absl::Status CheckOwner(const CheckpointOwner& owner, const v1::CheckpointRecord& record);
// Settings that may change and did, such as "inner.beta1: 0.9 in the checkpoint, 0.95 now".
std::vector<std::string> ChangedSettings(const CheckpointOwner& owner, const v1::CheckpointRecord& record);

// By fragment, the first round whose outer gradient is not taken; `run.rounds`: none is left.
std::vector<int64_t> NextRounds(const ReplicaState& replica, const RunConfig& config);

// Inverse of DescribeCheckpoint, which takes the arrays over; CheckOwner is OK. Errors, kFailedPrecondition: a section
// is missing or has another size, with its name, or a number is out of its range.
absl::StatusOr<WorkerCheckpoint> RestoreCheckpoint(const CheckpointOwner& owner, LoadedCheckpoint loaded);

}  // namespace diloco
