// A trainer whose next step depends on everything that a checkpoint has to hold: parameters, an inner optimizer's
// moments and the count of its updates, and the step, which stands for the data's position. All float32, so that runs
// repeat bit for bit.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "worker/trainer/trainer.h"

namespace diloco::testing {

class MomentumTrainer final : public Trainer {
 public:
  struct Options {
    int worker = 0;
    int elements = 24;
    int tensors = 4;                            // Each a layer.
    std::function<void(int64_t step)> on_step;  // Before each step.
    // After it: its loss and the rate that the optimizer used.
    std::function<void(int64_t step, double loss, float rate)> on_loss;
    int64_t nan_at_step = -1;
  };
  explicit MomentumTrainer(Options options);

  std::vector<TensorSpec> Tensors() const override;
  void SetLayout(const Layout&) override {}
  absl::StatusOr<StepReport> Step(int64_t step, double /*rate*/) override;
  absl::StatusOr<StepReport> ComputeGradient(int64_t step, absl::Span<float> out) override;
  absl::Status ReadParameters(int64_t offset, absl::Span<float> out) override;
  absl::Status WriteParameters(int64_t offset, absl::Span<const float> parameters) override;
  void ResetInnerOptimizer() override;
  absl::StatusOr<TrainerState> SaveState() override;
  absl::Status LoadState(TrainerState state) override;
  absl::StatusOr<EvaluationReport> Evaluate(absl::Span<const float> parameters) override;

 private:
  double Loss(absl::Span<const float> theta) const;
  // Of step `step`'s batch.
  float Gradient(int64_t step, size_t i) const;
  StepReport Report(double loss) const { return {.loss = loss, .tokens = 10 + static_cast<uint64_t>(options_.worker)}; }

  const Options options_;
  std::vector<float> theta_;
  std::vector<float> momentum_;
  int64_t updates_ = 0;
};

}  // namespace diloco::testing
