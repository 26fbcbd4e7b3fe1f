// The training thread: inner steps, and stops of fragments between them. It never touches the network or the disk; it
// waits only when a stop needs averages that have not arrived, and all of that time is counted as blocked.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/base/clock.h"
#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "diloco/v1/types.pb.h"
#include "worker/client/worker_status.h"
#include "worker/loop/worker_options.h"
#include "worker/outer/replica.h"
#include "worker/outer/schedule.h"
#include "worker/sync/exchange.h"
#include "worker/sync/sync_core.h"
#include "worker/trainer/trainer.h"

namespace diloco {

class TrainingLoop {
 public:
  // All pointers outlive the object.
  struct Parts {
    const WorkerOptions* options = nullptr;
    const RunConfig* config = nullptr;
    const Layout* layout = nullptr;
    Trainer* trainer = nullptr;
    Exchange* exchange = nullptr;
    StatusBoard* board = nullptr;
    const Clock* clock = nullptr;
    std::function<void(SyncEvent)> post;                // To the sync thread.
    std::function<void(const v1::Evaluation&)> report;  // To the coordinator.
  };

  explicit TrainingLoop(Parts parts);

  // Trains from `first_round` on to the end of the run, settled and, by the evaluator, evaluated.
  // Errors: of Exchange::Take and of the trainer.
  absl::Status Run(int64_t first_round);

 private:
  absl::Status Begin(int64_t first_round);
  absl::Status TakeStep();
  // The stops at this step, of all fragments.
  absl::Status StopFragments();
  absl::Status StopTogether(std::vector<FragmentStop> stops);
  void HandOver(FragmentStop* stop, bool finite, float lambda);
  // Tells the sync thread which stop of the fragment sets next.
  void Announce(int fragment);
  // Jumps to the oldest open round when it is further on; returns the rounds that this skips.
  int64_t SkipClosedRounds();
  int64_t OldestVersion() const;
  void NoteStop(const std::vector<FragmentStop>& stops, bool finite, const Exchange::Taken& taken);
  absl::Status Settle();
  absl::Status MaybeEvaluate();
  void NoteStep(const StepReport& report);
  void NoteTime();
  void ShowProgress(bool now);

  const Parts parts_;
  const Layout& layout_;
  Replica replica_;
  const Schedule& schedule_;

  // By fragment.
  struct Progress {
    int64_t version = 0;    // In the parameters.
    int64_t published = 0;  // Newest version received, as of the last stop that set.
  };
  std::vector<Progress> fragments_;
  bool can_evaluate_ = true;

  MonotonicTime began_at_;
  absl::Duration evaluation_time_;
  MonotonicTime shown_at_;
  bool shown_ = false;
  std::deque<std::pair<MonotonicTime, uint64_t>> recent_;  // End of a step, tokens so far: for the rate.
};

}  // namespace diloco
