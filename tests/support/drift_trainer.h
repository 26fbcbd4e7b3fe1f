// A trainer without a model, of any size and speed, so that the load is the network's and the coordinator's.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"

#include "worker/trainer/trainer.h"

namespace diloco::testing {

// Each step moves every parameter a sixteenth of its way to 0 and by a hash of (seed, step, index), in [-1e-3, 1e-3),
// so that parameters which are wrong once stay wrong; the gradient is minus that.
class DriftTrainer : public Trainer {
 public:
  struct Options {
    int64_t elements = 0;      // Parameters, cut evenly into
    int tensors = 1;           // this many tensors, each a layer.
    int seed = 0;              // Another one a worker; a step counts 1 + seed tokens.
    absl::Duration step_time;  // Of a step at least; waited for without burning the processor.
  };

  explicit DriftTrainer(const Options& options) : options_(options), theta_(static_cast<size_t>(options.elements)) {}

  std::vector<TensorSpec> Tensors() const override;
  void SetLayout(const Layout&) override {}
  absl::StatusOr<StepReport> Step(int64_t step, double /*rate*/) override;
  absl::StatusOr<StepReport> ComputeGradient(int64_t step, absl::Span<float> out) override;
  absl::Status ReadParameters(int64_t offset, absl::Span<float> out) override;
  absl::Status WriteParameters(int64_t offset, absl::Span<const float> parameters) override;
  void ResetInnerOptimizer() override {}
  absl::StatusOr<TrainerState> SaveState() override { return TrainerState(); }
  absl::Status LoadState(TrainerState state) override { return state.CheckEmpty(); }
  absl::StatusOr<EvaluationReport> Evaluate(absl::Span<const float> parameters) override;

 private:
  // Calls move(index, by) for every parameter, and takes as long as a step does.
  template <typename Move>
  StepReport Drift(int64_t step, const Move& move) const;

  const Options options_;
  std::vector<float> theta_;
};

}  // namespace diloco::testing
