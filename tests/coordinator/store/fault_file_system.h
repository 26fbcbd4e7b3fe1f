// Files in memory that fail, tear and forget as a machine may. Keeps what is durable apart from what was only written,
// for the bytes of files and for the names in folders, so that a power cut can be played at any operation.
//
//   FaultFileSystem files(seed);
//   files.FailAt(7, absl::ResourceExhaustedError("no space left on device"));   // the 7th change from now fails
//   ... use it ...
//   files.Crash(FaultFileSystem::Unsynced::kRandomBlocks);                      // what was not synced is at risk
//   ... use it again, as the next process would ...
//
// Opened files and locks belong to the process that opened them: after a crash or kill they fail. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/files/file_system.h"

namespace diloco {

class FaultFileSystem final : public FileSystem {
 public:
  explicit FaultFileSystem(uint64_t seed = 1) : random_(seed) {}
  FaultFileSystem(const FaultFileSystem&) = delete;
  FaultFileSystem& operator=(const FaultFileSystem&) = delete;

  // Changes are: Create, OpenForAppend when it creates, Append, Sync, Truncate, Rename, Remove, SyncFolder.
  // The `nth` change from now (from 0) fails with `status`; an append has then written some part. `for_good`: so does
  // every change after it, as when the power goes. (That of a sync comes out as SyncError makes it.)
  void FailAt(int nth, absl::Status status, bool for_good = false);
  // The same for changes whose line in operations() begins with `prefix` only.
  void FailOn(const std::string& prefix, int nth, absl::Status status);
  int changes() const { return changes_; }
  // One line a change: "create PATH", "append PATH BYTES", "sync PATH", "truncate PATH SIZE", "rename FROM TO",
  // "remove PATH", "sync-folder FOLDER".
  const std::vector<std::string>& operations() const { return operations_; }
  void ForgetOperations() { operations_.clear(); }

  // What becomes, in a power cut, of bytes that were appended and not synced.
  enum class Unsynced {
    kLost,          // Nothing of it was written.
    kPrefix,        // The file ends somewhere within it.
    kZeros,         // The length is as written, the bytes from somewhere on are zeros.
    kRandomBlocks,  // The length is as written, any of the 4 KiB blocks are zeros.
    kWritten,       // All of it was written.
  };
  // The power goes: opened files and locks are gone, faults are lifted, and of the changes to names that no SyncFolder
  // followed a random first part survives (with kLost none, with kWritten all).
  void Crash(Unsynced unsynced);
  // The process is killed: opened files and locks are gone, faults are lifted, all that was written is still there.
  void Kill();

  // Contents as a reader sees them now, and changing them behind the store's back (durably).
  std::string Contents(const std::string& path) const;
  void SetContents(const std::string& path, std::string contents);
  bool Exists(const std::string& path) const { return names_.contains(path); }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override;
  absl::Status Truncate(const std::string& path, uint64_t size) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;
  absl::Status CreateFolder(const std::string& folder) override;
  absl::Status SyncFolder(const std::string& folder) override;
  absl::StatusOr<uint64_t> FreeBytes(const std::string&) override { return uint64_t{4096}; }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path, const std::string& holder) override;

 private:
  struct File {
    std::string bytes;
    size_t durable = 0;  // Of them: appended bytes count once synced.
  };
  using Names = std::map<std::string, std::shared_ptr<File>>;
  // One change to the names, which nothing made durable yet: `path` refers to `file` (nullptr: to nothing).
  struct Renaming {
    std::string folder;
    std::vector<std::pair<std::string, std::shared_ptr<File>>> entries;  // All at once.
  };
  class Writer;
  class Reader;
  class HeldLock;

  // Notes the operation; the error that is due for it, if any.
  absl::Status Change(const std::string& operation);
  absl::Status AppendTo(File& file, const std::string& path, std::string_view bytes);
  absl::Status SyncFile(File& file, const std::string& path);
  void ChangeNames(const std::string& folder, std::vector<std::pair<std::string, std::shared_ptr<File>>> entries);
  absl::Status RenameFolder(const std::string& from, const std::string& to);
  void LoseUnsynced(File& file, Unsynced unsynced);
  void EndProcess();
  size_t Random(size_t bound) { return std::uniform_int_distribution<size_t>(0, bound)(random_); }  // 0..bound

  std::mt19937_64 random_;
  Names names_;
  Names durable_names_;
  std::vector<Renaming> unsynced_names_;
  std::set<std::string> folders_;
  std::map<std::string, std::string> locks_;  // Path to holder.
  uint64_t process_ = 0;                      // Counts crashes and kills.

  struct Fault {
    int left = 0;
    absl::Status status;
    std::string prefix;
    bool for_good = false;
  };
  std::optional<Fault> fault_;
  int changes_ = 0;
  std::vector<std::string> operations_;
};

}  // namespace diloco
