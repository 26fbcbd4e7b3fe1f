// From a folder of checkpoints to a join that says where the worker goes on.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"

#include "common/config/run_config.h"
#include "diloco/v1/worker.pb.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_folder.h"

namespace diloco {

// The newest checkpoint that is good; nullopt: there is none. Logs its path, and settings that changed since. Errors,
// with the path: it is damaged in no way, but not one to go on from; the file system's.
absl::StatusOr<std::optional<WorkerCheckpoint>> LoadNewestCheckpoint(const CheckpointOwner& owner,
                                                                     CheckpointFolder* folder);

// By fragment, the version of the consensus in it.
std::vector<int64_t> HeldVersions(const WorkerCheckpoint& checkpoint);

// Adds to a join what the checkpoint holds, and where the worker goes on.
void AddResumePoint(const WorkerCheckpoint& checkpoint, const RunConfig& config, v1::JoinRequest* join);

}  // namespace diloco
