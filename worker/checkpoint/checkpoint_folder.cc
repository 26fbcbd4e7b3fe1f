#include "worker/checkpoint/checkpoint_folder.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "common/log/log.h"

namespace diloco {
namespace {

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kAside = ".tmp";

std::optional<int64_t> NumberOf(const std::string& name) {
  int64_t number = 0;
  if (!name.starts_with(kPrefix) || !absl::SimpleAtoi(name.substr(kPrefix.size()), &number) || number < 0) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointFolder>> CheckpointFolder::Open(FileSystem* files, std::string folder,
                                                                         const std::string& holder) {
  DILOCO_RETURN_IF_ERROR(files->CreateFolder(folder));
  absl::StatusOr<std::unique_ptr<FileLock>> lock = files->Lock(folder + "/LOCK", holder);
  if (absl::IsFailedPrecondition(lock.status())) {
    return absl::FailedPreconditionError(
        absl::StrFormat("checkpoint folder \"%s\" is held by \"%s\"; stop it or use another folder", folder,
                        std::string(lock.status().message())));
  }
  DILOCO_RETURN_IF_ERROR(lock.status());
  auto opened = std::unique_ptr<CheckpointFolder>(new CheckpointFolder(files, std::move(folder), *std::move(lock)));
  DILOCO_RETURN_IF_ERROR(opened->List());
  return opened;
}

absl::Status CheckpointFolder::List() {
  DILOCO_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_->List(folder_));
  for (const std::string& name : names) {
    if (name.starts_with(kPrefix) && name.ends_with(kAside)) {
      DILOCO_RETURN_IF_ERROR(files_->Remove(absl::StrCat(folder_, "/", name)));
    } else if (const std::optional<int64_t> number = NumberOf(name)) {
      numbers_.insert(*number);
    }
  }
  return absl::OkStatus();
}

std::string CheckpointFolder::PathOf(int64_t number) const {
  return absl::StrFormat("%s/%s%08d", folder_, kPrefix, number);
}

absl::StatusOr<std::optional<CheckpointFolder::Found>> CheckpointFolder::LoadNewest() {
  for (auto number = numbers_.rbegin(); number != numbers_.rend(); ++number) {
    std::string path = PathOf(*number);
    absl::StatusOr<LoadedCheckpoint> loaded = ReadCheckpointFile(files_, path);
    if (loaded.ok()) return Found{std::move(path), *std::move(loaded)};
    if (!absl::IsDataLoss(loaded.status())) return loaded.status();
    damaged_.insert(*number);
    LogWarning("checkpoint_damaged", {{"path", path}, {"reason", loaded.status().message()}});
  }
  return std::nullopt;
}

absl::StatusOr<std::string> CheckpointFolder::Write(const CheckpointContent& content) {
  const int64_t number = numbers_.empty() ? 0 : *numbers_.rbegin() + 1;
  std::string path = PathOf(number);
  const std::string aside = absl::StrCat(path, std::string(kAside));
  const absl::Status status = [&]() -> absl::Status {
    DILOCO_RETURN_IF_ERROR(WriteCheckpointFile(files_, aside, content));
    DILOCO_RETURN_IF_ERROR(files_->Rename(aside, path));
    return files_->SyncFolder(folder_);
  }();
  if (!status.ok()) {
    // Whichever name it has; what is not there needs no removal.
    files_->Remove(aside).IgnoreError();
    files_->Remove(path).IgnoreError();
    return status;
  }
  numbers_.insert(number);
  Prune();
  return path;
}

// A file that cannot be removed costs its room, no more.
void CheckpointFolder::Prune() {
  std::vector<int64_t> surplus(damaged_.begin(), damaged_.end());
  size_t kept = 0;
  for (auto number = numbers_.rbegin(); number != numbers_.rend(); ++number) {
    if (!damaged_.contains(*number) && ++kept > kCheckpointsKept) surplus.push_back(*number);
  }
  for (const int64_t number : surplus) {
    if (const absl::Status status = files_->Remove(PathOf(number)); !status.ok()) {
      LogWarning("checkpoint_not_removed", {{"path", PathOf(number)}, {"reason", status.ToString()}});
      continue;
    }
    numbers_.erase(number);
    damaged_.erase(number);
  }
}

}  // namespace diloco
