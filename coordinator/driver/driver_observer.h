// What the driver tells the world about itself: for metrics, the log and the process's end. Called on the driver's
// thread; implementations must not block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/base/clock.h"
#include "common/base/digest.h"
#include "common/config/run_settings.h"
#include "coordinator/round/round_events.h"
#include "coordinator/round/round_machine.h"
#include "diloco/v1/admin.pb.h"
#include "diloco/v1/types.pb.h"

namespace diloco {

// Members by state, each in one, and those that the oldest open round waits for or holds something of.
struct MemberCounts {
  int alive = 0;  // And neither draining nor suspended.
  int draining = 0;
  int suspended = 0;
  int lost = 0;
  int left = 0;
  int evicted = 0;
  int participating = 0;
  friend bool operator==(const MemberCounts&, const MemberCounts&) = default;
};

// What the disk is asked for.
enum class DiskUser { kJournal, kSnapshot, kCheckpoint };

// What holds a run: the disk, or a data folder that is behind what a worker holds.
enum class HoldCause { kDisk, kFolderBehind };

// Of the fragment that is furthest behind, the round that closes next.
struct OldestRound {
  int64_t round = 0;
  MonotonicTime opened;
  absl::Duration open_for;  // `opened`, until now.
  int quorum = 0;           // Distinct workers that it needs.
  int present = 0;          // And has a contribution of.
  absl::Duration grace_window;
  // Time alone makes no other one.
  friend bool operator==(const OldestRound& a, const OldestRound& b) {
    return a.round == b.round && a.opened == b.opened && a.quorum == b.quorum && a.present == b.present &&
           a.grace_window == b.grace_window;
  }
};

class DriverObserver {
 public:
  virtual ~DriverObserver() = default;
  // The machine's effect is carried out next.
  virtual void OnEffect(const RoundEffect&) {}
  // What the data folder had: the newest snapshot, and the newest round that any fragment has committed; -1: none.
  virtual void OnRecovered(int64_t /*version*/, uint64_t /*snapshot_bytes*/, int64_t /*newest_committed*/) {}
  virtual void OnPhase(RunPhase) {}
  virtual void OnWorkerJoined(const std::string& /*worker*/, bool /*returning*/) {}
  virtual void OnWorkerLost(const std::string& /*worker*/) {}
  virtual void OnWorkerLeft(const std::string& /*worker*/) {}
  virtual void OnWorkerDraining(const std::string& /*worker*/) {}
  // `dropped`: contributions that were held of it.
  virtual void OnWorkerEvicted(const std::string& /*worker*/, int /*dropped*/) {}
  virtual void OnWorkerReadmitted(const std::string& /*worker*/) {}
  // The counts are others than those last told (none, at first), whatever the reason.
  virtual void OnMembers(const MemberCounts&) {}
  virtual void OnProgress(const std::string& /*worker*/, const v1::WorkerProgress&) {}
  virtual void OnEvaluation(const v1::Evaluation&) {}
  virtual void OnContribution(const ContributionId&, Verdict, const std::string& /*reason*/) {}
  virtual void OnChunkReceived(const ContributionId&, uint64_t /*payload_bytes*/) {}
  // The run goes on with another configuration than it was started with, from here on.
  virtual void OnConfigurationChanged(const Digest& /*was*/, const Digest& /*is*/) {}
  // The configuration that is in force from now on, where it is not the file's alone.
  virtual void OnSettings(const RunConfig&) {}
  // An operator has paused the run, or lets it go on.
  virtual void OnRunPaused() {}
  virtual void OnRunResumed() {}
  // Settings have changed, the run's length among them.
  virtual void OnRunChanged(const std::vector<RunChange>&) {}
  // An operator has stopped the run: it ends with so many rounds.
  virtual void OnRunStopped(int64_t /*rounds*/) {}
  // Who has answered in a round that has not closed is not who it was: why it has not.
  virtual void OnRoundWaiting(int /*fragment*/, int64_t /*round*/, const std::string& /*reason*/) {}
  // Another one than told last, or it changed; looked at once a second. nullopt: none is open.
  virtual void OnOldestRound(const std::optional<OldestRound>&) {}
  // Encoded bytes of contributions that are held in memory; as OnOldestRound.
  virtual void OnStaged(uint64_t /*bytes*/) {}
  virtual void OnMerged(int /*fragment*/, int64_t /*round*/, absl::Duration /*took*/, double /*norm*/) {}
  virtual void OnCommitted(int /*fragment*/, int64_t /*round*/, absl::Duration /*since_opened*/, int /*merged*/,
                           int /*dropped*/, const std::string& /*reason*/) {}
  // Becomes of a contribution what a published global delta or the end record says. `late`: merged by a later round.
  virtual void OnSettled(v1::Settlement, bool /*late*/) {}
  // Every fragment has committed the round.
  virtual void OnRoundCommitted(const v1::RoundSummary&) {}
  virtual void OnPublished(uint64_t /*payload_bytes*/, int /*subscribers*/) {}
  // A record is durable, `took` after it was handed to the disk's thread.
  virtual void OnJournaled(absl::Duration /*took*/) {}
  // The store's work is done, of whatever kind: the size of its journal.
  virtual void OnJournalSize(uint64_t /*bytes*/) {}
  virtual void OnSnapshot(int64_t /*version*/, absl::Duration /*took*/, uint64_t /*bytes*/) {}
  virtual void OnCheckpoint(int64_t /*version*/, const std::string& /*path*/, absl::Duration /*took*/) {}
  virtual void OnCheckpointFailed(const absl::Status&) {}
  // The driver did not run for this long, though it should have; no lease and no grace window counts it.
  virtual void OnPaused(absl::Duration) {}
  // The disk refused something (full or read-only): why, and when it is tried again.
  virtual void OnDiskRefused(DiskUser, const std::string& /*sentence*/) {}
  // The run is held, and why; empty: it goes on. Again when there is news of the reason.
  virtual void OnHold(HoldCause, const std::string& /*reason*/) {}
  // What the data folder holds was replaced: the coordinator is to start again from it, for this reason.
  virtual void OnStartAgain(const std::string& /*reason*/) {}
  // The store failed: nothing more is published, and the process is to end with this message.
  virtual void OnFatal(const absl::Status&) {}
  // Ended, the final checkpoint is written, and every member has left or is lost.
  virtual void OnRunFinished() {}
};

}  // namespace diloco
