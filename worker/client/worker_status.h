// What a worker knows of itself: for heartbeats, progress lines and metrics. Plain data; StatusBoard shares it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "diloco/v1/types.pb.h"

namespace diloco {

// A round that the worker sends nothing for.
struct RoundAbstention {
  int fragment = 0;
  int64_t round = 0;
  std::string reason;
};

// Totals are over this session of the process.
struct WorkerStatus {
  std::string state;            // "connecting", "seeding", "waiting for workers", "training", "settling", "done".
  int64_t step = 0;             // Inner step that was finished last, plus one.
  int64_t steps = 0;            // Of the whole run.
  int64_t session_steps = 0;    // In this session.
  int64_t round = 0;            // Round in training.
  int64_t rounds = 0;           // Of the whole run.
  int64_t version = 0;          // Newest version that all fragments of the consensus have reached.
  int64_t applied_version = 0;  // Oldest version among what the parameters contain.
  double loss = std::numeric_limits<double>::quiet_NaN();        // Of the last step, nats a token.
  double first_loss = std::numeric_limits<double>::quiet_NaN();  // Of the first.
  double evaluation_loss = std::numeric_limits<double>::quiet_NaN();
  int64_t evaluation_version = -1;  // -1: none yet.
  uint64_t tokens = 0;
  double tokens_per_second = 0;   // Over the last steps.
  double blocked_seconds = 0;     // The training thread waited for the network or the coordinator.
  double wall_seconds = 0;        // Since training began, evaluation excluded.
  double evaluation_seconds = 0;  // Spent on evaluating the consensus.
  int64_t rounds_skipped = 0;     // Closed before the worker's boundary.
  int64_t outer_gradients_not_finite = 0;
  uint64_t uploaded_bytes = 0;     // Payload of contributions.
  uint64_t downloaded_bytes = 0;   // Payload of global deltas.
  bool connected = false;          // A session with the coordinator is open.
  int64_t session_reconnects = 0;  // Heard again after a break.
  int64_t stream_reconnects = 0;   // Likewise, of uploads and downloads.
  int64_t resyncs = 0;             // Snapshots taken after the first.
  int64_t upload_queue = 0;        // Contributions that the coordinator does not hold yet.
  int64_t uploads = 0;             // Contributions that it took whole.
  double upload_seconds = 0;       // From the boundary of each until it was held.
  int64_t downloads = 0;           // Global deltas received whole.
  double download_seconds = 0;     // From the first chunk of each to its last.
  int64_t checkpoints_written = 0;
  int64_t checkpoints_failed = 0;  // Could not be written.
  double checkpoint_seconds = 0;   // Spent on writing them, failed ones too.
  int64_t checkpoint_step = -1;    // Of the newest one written in this session; -1: none yet.
  std::vector<int64_t> held;       // Newest version received, by fragment; empty: nothing yet.
  std::vector<RoundAbstention> abstentions;
  bool suspending = false;            // The process ends, and means to come back within its lease.
  std::optional<int64_t> last_round;  // Of a draining worker that takes no further steps: what it contributes to last.
  std::optional<MonotonicTime> waiting_since;  // At a stop, now; not yet in blocked_seconds or wall_seconds.

  // The same, with the wait that is under way counted.
  WorkerStatus At(MonotonicTime now) const;
  // Rounds between the worker's round and the averages that its parameters contain; 0: everything is in.
  int64_t Staleness() const { return round > applied_version ? round - applied_version : 0; }
  int64_t Reconnects() const { return session_reconnects + stream_reconnects; }
  // 1 - blocked / wall; 1 before training.
  double Utilization() const { return wall_seconds > 0 ? 1 - blocked_seconds / wall_seconds : 1; }
};

// The part that heartbeats carry.
v1::WorkerProgress ToProgress(const WorkerStatus& status);

// Thread-safe.
class StatusBoard {
 public:
  template <typename F>
  void Update(F&& change) {
    MutexLock lock(&mutex_);
    std::forward<F>(change)(status_);
  }
  WorkerStatus Get() const {
    MutexLock lock(&mutex_);
    return status_;
  }

 private:
  mutable Mutex mutex_;
  WorkerStatus status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace diloco
