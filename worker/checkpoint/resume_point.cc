#include "worker/checkpoint/resume_point.h"

#include <string>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "common/log/log.h"

namespace diloco {

absl::StatusOr<std::optional<WorkerCheckpoint>> LoadNewestCheckpoint(const CheckpointOwner& owner,
                                                                     CheckpointFolder* folder) {
  DILOCO_ASSIGN_OR_RETURN(std::optional<CheckpointFolder::Found> found, folder->LoadNewest());
  if (!found) return std::nullopt;
  absl::StatusOr<WorkerCheckpoint> checkpoint = [&]() -> absl::StatusOr<WorkerCheckpoint> {
    DILOCO_RETURN_IF_ERROR(CheckOwner(owner, found->checkpoint.record));
    for (const std::string& change : ChangedSettings(owner, found->checkpoint.record)) {
      LogWarning("setting_changed", {{"change", change}, {"reason", "the configuration's wins over the checkpoint's"}});
    }
    return RestoreCheckpoint(owner, std::move(found->checkpoint));
  }();
  if (!checkpoint.ok()) {
    return absl::Status(checkpoint.status().code(),
                        absl::StrFormat("\"%s\": %s", found->path, std::string(checkpoint.status().message())));
  }
  LogInfo("checkpoint_loaded", {{"path", found->path}});
  return *std::move(checkpoint);
}

std::vector<int64_t> HeldVersions(const WorkerCheckpoint& checkpoint) {
  std::vector<int64_t> versions;
  for (const SyncState::Fragment& fragment : checkpoint.sync.fragments) {
    versions.push_back(fragment.outer.consensus.version());
  }
  return versions;
}

void AddResumePoint(const WorkerCheckpoint& checkpoint, const RunConfig& config, v1::JoinRequest* join) {
  join->mutable_held()->set_generation(checkpoint.generation);
  for (const int64_t version : HeldVersions(checkpoint)) join->mutable_held()->add_versions(version);
  for (const int64_t round : NextRounds(checkpoint.training.replica, config)) {
    join->mutable_resumes()->add_next_rounds(round);
  }
}

}  // namespace diloco
