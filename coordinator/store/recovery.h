// Reads a data folder back: the newest good snapshot and every group that the journals behind it committed. Changes
// nothing on disk.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/files/file_system.h"
#include "coordinator/store/store.h"

namespace diloco {

std::string JournalPath(const std::string& folder, uint64_t sequence);
std::string SnapshotPath(const std::string& folder, uint64_t sequence);
// Where a file is written before it gets its name.
std::string TemporaryPath(const std::string& path);

// The store's files in a folder; others are left alone.
struct FolderFiles {
  std::set<uint64_t> journals;
  std::set<uint64_t> snapshots;
  std::vector<std::string> leftovers;  // Paths of files whose writing was interrupted.
};
absl::StatusOr<FolderFiles> ListFolder(FileSystem* files, const std::string& folder);

// Recovery needs the journals from the greatest sequence that is not above the snapshot's; 0 is before any snapshot.
std::optional<uint64_t> FirstJournalFor(const std::set<uint64_t>& journals, uint64_t snapshot_sequence);

struct Recovery {
  RecoveredState state;
  std::optional<uint64_t> snapshot_sequence;  // That of state.snapshot.
  uint64_t consensus_offset = 0;              // In that file.
  std::set<uint64_t> bad_snapshots;           // Passed over.
  uint64_t committed_bytes = 0;               // Of the last journal; what lies behind was never committed.
  bool torn = false;                          // Something does.
};
// Errors: see Store::Open.
absl::StatusOr<Recovery> Recover(FileSystem* files, const std::string& folder, const FolderFiles& present);

}  // namespace diloco
