// What the training thread and the sync thread give each other. The training thread takes what is staged for a stop and
// waits here if it is not there yet; the sync thread publishes. Thread-safe. (A simulated cluster, which has one
// thread, asks again instead of waiting.)
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/config/run_settings.h"
#include "worker/outer/fragment_outer.h"

namespace diloco {

// In place of a round: training has not begun, and what is staged is the consensus itself.
inline constexpr int64_t kBeforeTraining = -1;

// How late an interrupt is noticed in a wait.
inline constexpr absl::Duration kWaitSlice = absl::Milliseconds(100);

// Everything that one fragment's stop in `round` needs to set theta.
struct StagedStop {
  int64_t round = kBeforeTraining;
  std::shared_ptr<const FragmentOuter::Staged> staged;
  int64_t published = 0;  // Newest version that the fragment has received.
};

// A fragment's stop, and the version that it needs.
struct StopNeed {
  int fragment = 0;
  int64_t round = kBeforeTraining;
  int64_t required = 0;
};

// The consensus at one version, all fragments, for evaluation. Shapes: parameters [layout.element_count()].
struct ConsensusCopy {
  int64_t version = 0;
  std::vector<float> parameters;
};

class Exchange {
 public:
  struct Options {
    std::string coordinator;                           // Address, for messages.
    absl::Duration give_up_after = absl::Minutes(30);  // Without a word from the coordinator.
    const std::atomic<bool>* interrupt = nullptr;      // Set: waits end with kCancelled. May be null.
    std::function<void(int64_t round)> on_wait;        // Await begins to wait; called under a lock. May be empty.
  };
  // `clock` outlives the object.
  Exchange(Options options, const Clock* clock);

  // ---- The training thread ----

  // What is staged for some fragments' stops, in the order of the needs, when all of them hold what they need; nullopt
  // while they do not. Errors: kCancelled when interrupted, kUnavailable when the coordinator is silent for too long,
  // or as Fail said.
  absl::StatusOr<std::optional<std::vector<StagedStop>>> TryTake(absl::Span<const StopNeed> needs);
  // Waits until TryTake or TakeSettings has something. Errors: as there.
  absl::Status Await(absl::Span<const StopNeed> needs);

  // Whether the run is over for this worker: it has ended and everything is applied, or the worker has drained. Errors,
  // while it is not: as above.
  absl::StatusOr<bool> Ended();
  // Waits until the run has ended and everything is applied, or TakeSettings has something. Errors: as above.
  absl::Status AwaitEnd();

  // The newest copy of the consensus that is to be evaluated; null when there is none since the last call.
  std::shared_ptr<const ConsensusCopy> TakeConsensusCopy();

  // The run's settings, when there are others since the last call; else null.
  std::shared_ptr<const RunSettings> TakeSettings();

  // Not OK when training has to stop: interrupted or failed.
  absl::Status Check() const;
  // Check for whoever waits for the coordinator: also not OK when it is silent for too long.
  absl::Status CheckHope();

  // ---- The sync thread and the control thread ----

  void Publish(int fragment, StagedStop stop);
  // True: copies of the consensus are wanted when it crosses a multiple of eval.every, and at the end.
  void SetEvaluator(bool evaluator) { evaluator_.store(evaluator, std::memory_order_relaxed); }
  // An operator wants the worker to leave, once its current round is finished and what it sent is settled.
  void AskToDrain() { draining_.store(true, std::memory_order_relaxed); }
  bool draining() const { return draining_.load(std::memory_order_relaxed); }
  bool evaluator() const { return evaluator_.load(std::memory_order_relaxed); }
  // Before what is staged with averages that were published after them: so no round is begun without its settings.
  void PublishSettings(std::shared_ptr<const RunSettings> settings);
  void PublishConsensusCopy(std::shared_ptr<const ConsensusCopy> copy);
  void PublishEnd();
  // Ends all waits with this error; the first one counts.
  void Fail(absl::Status status);
  // Fail was called, whatever else ended the waits.
  bool BrokenDown() const;
  // The coordinator was heard.
  void NoteContact();

 private:
  absl::Status CheckLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckHopeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first need that is not there; nullptr: all are.
  const StopNeed* MissingLocked(absl::Span<const StopNeed> needs) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitALittle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const Clock* const clock_;
  std::atomic<bool> evaluator_ = false;
  std::atomic<bool> draining_ = false;
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<int, StagedStop> stops_ ABSL_GUARDED_BY(mutex_);  // By fragment.
  std::shared_ptr<const ConsensusCopy> copy_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const RunSettings> settings_ ABSL_GUARDED_BY(mutex_);  // Null: taken.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool broken_down_ ABSL_GUARDED_BY(mutex_) = false;
  MonotonicTime heard_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace diloco
