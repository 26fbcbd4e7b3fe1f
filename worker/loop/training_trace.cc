#include "worker/loop/training_trace.h"

#include <algorithm>

namespace diloco {

void TrainingTrace::BeginStep(int64_t step, int64_t round) {
  if (tracer_ == nullptr) return;
  if (compute_ && compute_->round != round) EndCompute();
  const MonotonicTime now = Tracer::Now();
  if (!compute_) compute_ = Compute{.begin = now, .round = round, .first_step = step};
  step_ = step;
  // Readers nest slices by time, so that the inner one has to begin later.
  step_began_ = std::max(now, compute_->begin + absl::Nanoseconds(1));
}

void TrainingTrace::EndStep() {
  if (tracer_ == nullptr) return;
  compute_->end = std::max(Tracer::Now(), step_began_);
  ++compute_->steps;
  tracer_->Slice(track_, "step", step_began_, compute_->end, {{"step", step_}, {"round", compute_->round}});
}

void TrainingTrace::EndCompute() {
  if (compute_ && compute_->steps > 0) {
    tracer_->Slice(track_, "compute", compute_->begin, compute_->end,
                   {{"round", compute_->round}, {"first_step", compute_->first_step}, {"steps", compute_->steps}});
  }
  compute_.reset();
}

void TrainingTrace::Curves(const StatusBoard& board) const {
  if (tracer_ == nullptr) return;
  const WorkerStatus status = board.Get();
  tracer_->Counter("staleness (rounds)", Tracer::Now(), static_cast<double>(status.Staleness()));
  tracer_->Counter("utilization", Tracer::Now(), status.Utilization());
}

}  // namespace diloco
