// What a data folder holds, read from the grammar in journal_format.h and snapshot_file.h alone: no checksum is
// checked, only what a commit block closes counts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/files/file_system.h"
#include "diloco/v1/journal.pb.h"

namespace diloco::sim {

struct FolderScan {
  // Serialised messages of a global delta (chunks, settled list, commit), by (fragment, round).
  std::map<std::pair<int, int64_t>, std::vector<std::string>> deltas;
  // Of the newest one.
  uint32_t generation = 0;
  // Of that generation, by version; `raw` is the consensus alone.
  struct Snapshot {
    v1::SnapshotRecord record;
    std::string raw;
  };
  std::map<int64_t, Snapshot> snapshots;
  std::string end;  // The serialised end record; empty: none.
};

FolderScan ScanFolder(FileSystem* files, const std::string& folder);

}  // namespace diloco::sim
