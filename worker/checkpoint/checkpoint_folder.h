// The folder of one worker's checkpoints: checkpoint-00000017 and the one before. Each is written aside, synced,
// renamed into place, and the folder synced. Locked for as long as the object lives. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/files/file_system.h"
#include "worker/checkpoint/checkpoint_file.h"

namespace diloco {

// Good checkpoints that are kept.
inline constexpr size_t kCheckpointsKept = 2;

class CheckpointFolder {
 public:
  // Made if it is absent; leftovers of a crash are removed. `holder` is what another process is told. `files` outlives
  // the object. Errors: kFailedPrecondition, another process holds it; the file system's.
  static absl::StatusOr<std::unique_ptr<CheckpointFolder>> Open(FileSystem* files, std::string folder,
                                                                const std::string& holder);

  struct Found {
    std::string path;
    LoadedCheckpoint checkpoint;
  };
  // The newest that is good; nullopt: there is none. One warning names file and place of each that is damaged; a worker
  // whose checkpoints are all damaged joins afresh. Errors: of ReadCheckpointFile, but for kDataLoss.
  absl::StatusOr<std::optional<Found>> LoadNewest();

  // Returns the path. After an error the ones before are as they were. Errors: the file system's.
  absl::StatusOr<std::string> Write(const CheckpointContent& content);

 private:
  CheckpointFolder(FileSystem* files, std::string folder, std::unique_ptr<FileLock> lock)
      : files_(files), folder_(std::move(folder)), lock_(std::move(lock)) {}

  std::string PathOf(int64_t number) const;
  absl::Status List();
  void Prune();

  FileSystem* const files_;
  const std::string folder_;
  const std::unique_ptr<FileLock> lock_;
  std::set<int64_t> numbers_;  // Of the files that are there,
  std::set<int64_t> damaged_;  // and of those among them that are known to be no good.
};

}  // namespace diloco
