// A checkpoint of the consensus for people and other programs: DIR/round-NNNNNNNN/{model.safetensors,run.yaml}.
// Versions of another generation have nothing in common with it: theirs are DIR/round-NNNNNNNN-generation-N.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/files/file_system.h"
#include "common/layout/layout.h"
#include "coordinator/driver/consensus_keeper.h"

namespace diloco {

struct ConsensusCheckpoint {
  std::string run_id;
  std::string config_yaml;    // With the newest value of everything.
  std::string config_digest;  // Hex.
  const Layout* layout = nullptr;
  const ConsensusArrays* arrays = nullptr;
  uint32_t generation = 0;  // How often an operator has replaced the consensus.
  int64_t version = 0;
};

struct SavedCheckpoint {
  std::string path;  // The folder.
  uint32_t generation = 0;
  int64_t version = 0;
  uint64_t size_bytes = 0;  // Of model.safetensors.
  absl::Duration age;       // Likewise.
};

// Those in `folder`, newest first, by generation and version; empty: none, or no such folder.
std::vector<SavedCheckpoint> FindCheckpoints(FileSystem* files, const std::string& folder);

// Writes aside, syncs, renames: the folder is there whole or not at all. A version that is there already is left as it
// is. Errors: the file system's; what was written then takes no space.
absl::StatusOr<SavedCheckpoint> WriteCheckpoint(FileSystem* files, const std::string& folder,
                                                const ConsensusCheckpoint& content);

}  // namespace diloco
