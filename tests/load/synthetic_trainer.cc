#include "tests/load/synthetic_trainer.h"

#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "tests/support/drift_trainer.h"

namespace diloco::testing {
namespace {

// Another trainer whose first parameter, or gradient, becomes NaN in the last step of one round.
class PoisonedTrainer final : public Trainer {
 public:
  PoisonedTrainer(std::unique_ptr<Trainer> inner, int64_t nan_at_step)
      : inner_(std::move(inner)), nan_at_step_(nan_at_step) {}

  std::vector<TensorSpec> Tensors() const override { return inner_->Tensors(); }
  void SetLayout(const Layout& layout) override { inner_->SetLayout(layout); }
  absl::StatusOr<StepReport> Step(int64_t step, double rate) override {
    poisoned_ = poisoned_ || step == nan_at_step_;
    return inner_->Step(step, rate);
  }
  absl::StatusOr<StepReport> ComputeGradient(int64_t step, absl::Span<float> out) override {
    DILOCO_ASSIGN_OR_RETURN(const StepReport report, inner_->ComputeGradient(step, out));
    if (step == nan_at_step_) {
      out.front() = std::numeric_limits<float>::quiet_NaN();
    }
    return report;
  }
  absl::Status ReadParameters(int64_t offset, absl::Span<float> out) override {
    DILOCO_RETURN_IF_ERROR(inner_->ReadParameters(offset, out));
    if (offset == 0 && std::exchange(poisoned_, false)) {
      out.front() = std::numeric_limits<float>::quiet_NaN();
    }
    return absl::OkStatus();
  }
  absl::Status WriteParameters(int64_t offset, absl::Span<const float> p) override {
    return inner_->WriteParameters(offset, p);
  }
  void ResetInnerOptimizer() override { inner_->ResetInnerOptimizer(); }
  absl::StatusOr<TrainerState> SaveState() override {
    DILOCO_ASSIGN_OR_RETURN(TrainerState state, inner_->SaveState());
    state.counts["poisoned"] = poisoned_ ? 1 : 0;
    return state;
  }
  absl::Status LoadState(TrainerState state) override {
    DILOCO_ASSIGN_OR_RETURN(const int64_t poisoned, state.TakeCount("poisoned"));
    poisoned_ = poisoned != 0;
    return inner_->LoadState(std::move(state));
  }
  absl::StatusOr<EvaluationReport> Evaluate(absl::Span<const float> p) override { return inner_->Evaluate(p); }

 private:
  std::unique_ptr<Trainer> inner_;
  const int64_t nan_at_step_;
  bool poisoned_ = false;
};

// A worker of a trajectory's world that says, before each step, what its parameters are.
class SteppingTrainer final : public QuadraticTrainer {
 public:
  SteppingTrainer(const Trajectory& trajectory, int worker, std::function<void(int64_t, const Vector&)> on_step)
      : QuadraticTrainer(trajectory, worker), on_step_(std::move(on_step)) {}

  absl::StatusOr<StepReport> Step(int64_t step, double rate) override {
    if (on_step_) on_step_(step, theta());
    return QuadraticTrainer::Step(step, rate);
  }

 private:
  std::function<void(int64_t, const Vector&)> on_step_;
};

absl::StatusOr<std::unique_ptr<Trainer>> MakeQuadratic(const SyntheticTrainerOptions& options) {
  DILOCO_ASSIGN_OR_RETURN(const std::vector<Trajectory> trajectories, LoadTrajectories(options.vectors));
  for (const Trajectory& trajectory : trajectories) {
    if (trajectory.index == options.trajectory) {
      return std::make_unique<SteppingTrainer>(trajectory, options.worker, options.on_step);
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(options.vectors, " has no case ", options.trajectory, " of a method that this program has"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> MakeSyntheticTrainer(const SyntheticTrainerOptions& options,
                                                              const RunConfig& config) {
  std::unique_ptr<Trainer> trainer;
  if (options.vectors.empty()) {
    trainer = std::make_unique<DriftTrainer>(DriftTrainer::Options{.elements = options.elements,
                                                                   .tensors = options.tensors,
                                                                   .seed = options.worker,
                                                                   .step_time = options.step_time});
  } else {
    DILOCO_ASSIGN_OR_RETURN(trainer, MakeQuadratic(options));
  }
  if (options.nan_at_round >= 0) {
    const int64_t last_step = (options.nan_at_round + 1) * config.inner_steps - 1;
    trainer = std::make_unique<PoisonedTrainer>(std::move(trainer), last_step);
  }
  return trainer;
}

}  // namespace diloco::testing
