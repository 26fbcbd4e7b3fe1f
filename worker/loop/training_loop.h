// The training thread: inner steps, and stops of fragments between them. It never touches the network or the disk; it
// waits only when a stop needs averages that have not arrived, and all of that time is counted as blocked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/base/clock.h"
#include "common/config/run_config.h"
#include "common/config/run_settings.h"
#include "common/layout/layout.h"
#include "diloco/v1/types.pb.h"
#include "worker/checkpoint/checkpoint_writer.h"
#include "worker/client/worker_status.h"
#include "worker/loop/training_trace.h"
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
    CheckpointSink* checkpoints = nullptr;              // Null: none are made.
  };

  // Training begins at the start of `first_round`.
  TrainingLoop(Parts parts, int64_t first_round);
  // Training goes on where a checkpoint stands, which may be in the midst of a stop.
  TrainingLoop(Parts parts, TrainingState resumed);

  // The thread's body: trains to the end of the run, settled and, by the evaluator, evaluated; or, told to drain, to
  // the end of its current round, settled. Errors: of Exchange::TryTake and of the trainer.
  absl::Status Run();

  // One turn, which never waits: an inner step, or as much of a stop as can be done now. kWaits: what comes next is not
  // there yet; ask again. (Run waits in between; a simulated cluster lets time pass.) Errors: as for Run.
  enum class Turn { kMoved, kWaits, kDone };
  absl::StatusOr<Turn> Advance();

  // Once Run has ended early: a checkpoint of where it stands, if it makes any and training had begun. Waits until it
  // is written. Errors: kDeadlineExceeded, and of the trainer.
  absl::Status Suspend(MonotonicTime deadline);

 private:
  //  kBeginning --consensus staged--> kStepping --inner step--> kStopping --no stop left--> kStepping, kSettling
  //                                                             |     ^ staged
  //                                                             +-> kTaking      kSettling --ended or drained--> kDone
  // With a checkpoint, kResuming in the place of kBeginning, and then kStopping. A run that is made longer goes back
  // from kSettling to kStepping; one that is made shorter, from kTaking to kSettling.
  enum class Stage { kBeginning, kResuming, kStepping, kStopping, kTaking, kSettling, kDone };

  absl::StatusOr<Turn> Begin();
  absl::StatusOr<Turn> Resume();
  void NoteBeginning();
  absl::StatusOr<Turn> TakeStep();
  // The next stop at this step: what it sends, and what it needs. Stops of a step are taken round by round.
  absl::StatusOr<Turn> Stop();
  // Theta of the stop, from what is staged.
  absl::StatusOr<Turn> TakeStaged();
  absl::StatusOr<Turn> Settle();
  void GoOn();
  // Settings that have arrived, and, between two steps, what they change: rates, and where the run ends.
  void NoticeSettings();
  void ApplySettings();
  // The stop under way is of a round that the run, made shorter, does not have any more.
  bool IsBeyondTheEnd() const;
  // The worker is to drain, and its current round is finished.
  bool IsDrained();
  absl::Status SetTheta(const std::vector<StagedStop>& taken);
  void HandOver(FragmentStop* stop, float lambda);
  // Tells the sync thread which stop of the fragment sets next.
  void Announce(int fragment);
  // Jumps to the oldest open round when it is further on; returns the rounds that this skips.
  int64_t SkipClosedRounds();
  int64_t OldestVersion() const;
  void NoteStop(absl::Duration wait);
  int64_t Round() const { return std::min(replica_.step() / schedule_.inner_steps(), schedule_.rounds()); }
  absl::Status MaybeCheckpoint();
  // Hands a copy of the state to the sync thread, which adds its own for the writer. It is reserved.
  absl::Status HandOverState();
  absl::Status MaybeEvaluate();
  void NoteStep(const StepReport& report);
  void NoteTime();
  void ShowProgress(bool now);

  const Parts parts_;
  const int64_t first_round_;
  const Layout& layout_;
  TrainingTrace trace_;
  Replica replica_;
  const Schedule& schedule_;

  std::vector<TrainingState::Progress> fragments_;
  ReplicaState resumed_;      // In kResuming.
  int64_t checkpointed_ = 0;  // checkpoint_every rounds of the run that are over and need no checkpoint any more.
  bool can_evaluate_ = true;
  std::shared_ptr<const RunSettings> settings_;  // The newest that were noticed; null: none were.
  bool settings_applied_ = true;

  Stage stage_ = Stage::kBeginning;
  std::optional<int64_t> last_round_;  // The round that was current when the worker was told to drain.
  std::vector<StopNeed> needs_;        // In kBeginning and kTaking.
  // Of the stop in kTaking.
  std::vector<FragmentStop> stops_;
  bool finite_ = true;
  MonotonicTime asked_at_;
  bool waited_ = false;

  MonotonicTime began_at_;
  absl::Duration evaluation_time_;
  MonotonicTime shown_at_;
  bool shown_ = false;
  std::deque<std::pair<MonotonicTime, uint64_t>> recent_;  // End of a step, tokens so far: for the rate.
};

}  // namespace diloco
