#include "worker/client/worker_status.h"

namespace diloco {

WorkerStatus WorkerStatus::At(MonotonicTime now) const {
  WorkerStatus status = *this;
  if (waiting_since) {
    const double waited = absl::ToDoubleSeconds(now - *waiting_since);
    status.blocked_seconds += waited;
    status.wall_seconds += waited;
  }
  return status;
}

v1::WorkerProgress ToProgress(const WorkerStatus& status) {
  v1::WorkerProgress progress;
  progress.set_step(status.step);
  progress.set_round(status.round);
  progress.set_version(status.version);
  progress.set_staleness(status.Staleness());
  progress.set_loss(status.loss);
  progress.set_first_loss(status.first_loss);
  progress.set_session_steps(status.session_steps);
  progress.set_tokens(status.tokens);
  progress.set_tokens_per_second(status.tokens_per_second);
  progress.set_blocked_seconds(status.blocked_seconds);
  progress.set_wall_seconds(status.wall_seconds);
  progress.set_evaluation_seconds(status.evaluation_seconds);
  progress.set_rounds_skipped(status.rounds_skipped);
  progress.set_outer_gradients_not_finite(status.outer_gradients_not_finite);
  progress.set_uploaded_bytes(status.uploaded_bytes);
  progress.set_downloaded_bytes(status.downloaded_bytes);
  return progress;
}

}  // namespace diloco
