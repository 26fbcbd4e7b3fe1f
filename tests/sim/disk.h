// The coordinator's disk: FaultFileSystem (what is not synced is lost in a power cut) with the faults of a cluster on
// top. It is full for a while, an operation fails, the process dies at one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/files/file_system.h"
#include "tests/coordinator/store/fault_file_system.h"
#include "tests/sim/crash_points.h"
#include "tests/sim/random.h"

namespace diloco::sim {

class Disk final : public FileSystem {
 public:
  using Unsynced = FaultFileSystem::Unsynced;

  Disk(Random* random, CrashPoints* points) : random_(*random), points_(*points), files_(random->Next()) {}

  // ---- Faults ----

  // Appends fail, some part of them written.
  void SetFull(bool full) { full_ = full; }
  // Of each change: it fails with an I/O error.
  void SetErrorChance(double chance) { error_chance_ = chance; }
  // A broken rule: syncs of journals say OK and do nothing.
  void IgnoreSyncs() { ignore_syncs_ = true; }
  // Called once when the process is to die at a change; until Restart() nothing changes any more.
  void SetOnDeath(std::function<void()> on_death) { on_death_ = std::move(on_death); }
  // Told of each global delta's message and of the end record as they are appended to the journal.
  void SetOnAppend(std::function<void(std::string_view message)> on_append) { on_append_ = std::move(on_append); }
  // What a process does that has died elsewhere.
  void Freeze() { dead_ = true; }
  void PowerCut(Unsynced unsynced);
  void Kill();

  bool Exists(const std::string& path) const { return files_.Exists(path); }
  // As a reader sees them; and changed behind everybody's back, durably.
  std::string Contents(const std::string& path) const { return files_.Contents(path); }
  void SetContents(const std::string& path, std::string contents) { files_.SetContents(path, std::move(contents)); }
  // The journals and snapshots of a folder, as they are now; and that folder with nothing but those, durably.
  using Copy = std::map<std::string, std::string>;
  Copy CopyOf(const std::string& folder);
  void Replace(const std::string& folder, const Copy& copy);
  // Bytes of all files whose path begins so.
  uint64_t Bytes(const std::string& prefix);
  uint64_t changes() const { return changes_; }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override;
  absl::Status Truncate(const std::string& path, uint64_t size) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;
  absl::Status CreateFolder(const std::string& folder) override;
  absl::Status SyncFolder(const std::string& folder) override;
  absl::StatusOr<uint64_t> FreeBytes(const std::string&) override { return full_ ? 0 : uint64_t{1} << 40; }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path, const std::string& holder) override;

 private:
  class File;

  // Carries out a change with the faults that are due.
  absl::Status Change(const std::string& name, bool writes, const std::function<absl::Status()>& change);
  bool Dies(const std::string& name, CrashSide side);

  Random& random_;
  CrashPoints& points_;
  FaultFileSystem files_;
  std::function<void()> on_death_;
  std::function<void(std::string_view)> on_append_;
  bool full_ = false;
  double error_chance_ = 0;
  bool ignore_syncs_ = false;
  bool dead_ = false;
  uint64_t changes_ = 0;
};

}  // namespace diloco::sim
