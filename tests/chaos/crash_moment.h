// In which state of a round a coordinator was when it died, from what it left behind: its log (level debug) and its
// data folder.
#pragma once

#include <set>
#include <string>

#include "tests/chaos/cluster.h"

namespace diloco::testing {

enum class CrashState {
  kSeeding,       // The first snapshot is not on disk.
  kWaiting,       // Not enough workers yet.
  kCollecting,    // Some contribution of the oldest open round is missing.
  kMerging,       // All are there.
  kCommitting,    // Merged, and the commit record is not on disk.
  kNotPublished,  // The commit record is on disk, and nobody was told.
  kSnapshotting,  // A file of the store was being written aside.
  kEnding,        // Every round is committed, and the end record is not on disk.
  kEnded,         // It is.
};
inline constexpr CrashState kCrashStates[] = {
    CrashState::kSeeding,      CrashState::kWaiting,    CrashState::kCollecting,
    CrashState::kMerging,      CrashState::kCommitting, CrashState::kNotPublished,
    CrashState::kSnapshotting, CrashState::kEnding,     CrashState::kEnded};
const char* NameOf(CrashState state);

// Of the coordinator that has just been killed. Fragments may be in different states. `workers`: all of them are needed
// in a round; `rounds`: of the run; `log_offset`: where the dead process's log begins.
std::set<CrashState> StatesAtCrash(Cluster& cluster, int workers, int64_t rounds, uint64_t log_offset);

}  // namespace diloco::testing
