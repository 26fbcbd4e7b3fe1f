// The training thread: H inner steps, a boundary, and again. It never touches the network or the disk; it waits only
// when a boundary needs averages that have not arrived, and all of that time is counted as blocked.
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
#include "common/outer/method.h"
#include "diloco/v1/types.pb.h"
#include "worker/client/worker_status.h"
#include "worker/loop/worker_options.h"
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
  absl::Status TrainRound(int64_t round);
  // Returns the next round.
  absl::StatusOr<int64_t> EndRound(int64_t round);
  void HandOver(int64_t round, bool finite, std::vector<float> outer_gradient, std::vector<float> lambdas);
  void SetTheta(const StagedBoundary& boundary, bool look_ahead, absl::Span<const float> outer_gradient);
  absl::Status Settle();
  absl::Status MaybeEvaluate();
  void NoteStep(int64_t step, const StepReport& report);
  void NoteTime();
  void ShowProgress(bool now);

  const Parts parts_;
  const RunConfig& config_;
  const Layout& layout_;
  const Schedule schedule_;
  const Method& method_;

  std::vector<float> anchor_;  // Theta since the last boundary: what the next outer gradient is measured from.
  std::vector<float> theta_;
  bool can_evaluate_ = true;

  MonotonicTime began_at_;
  absl::Duration evaluation_time_;
  MonotonicTime shown_at_;
  bool shown_ = false;
  std::deque<std::pair<MonotonicTime, uint64_t>> recent_;  // End of a step, tokens so far: for the rate.
};

}  // namespace diloco
