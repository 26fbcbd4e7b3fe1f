// A trainer small enough to check by hand: plain SGD on 0.5 * sum_i a_i (theta_i - c_i)^2. No data and no noise, so
// every trajectory is a closed function of the configuration.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tests/support/saved_doubles.h"
#include "worker/trainer/trainer.h"

namespace diloco {

class QuadraticTrainer final : public Trainer {
 public:
  struct Options {
    std::vector<double> a;  // > 0.
    std::vector<double> c;
    std::vector<double> start;
    double rate = 0.1;
    int tensors = 1;                            // That the vector is cut into, each a layer of its own.
    std::function<void(int64_t step)> on_step;  // Before each step; may be empty.
    int64_t nan_at_step = -1;                   // The parameters, or the gradient, become NaN in this step.
    uint64_t tokens = 1;                        // Of a step.
    bool evaluates = true;                      // False: no held-out data.
  };

  // What worker `worker` minimises in tests of several: another bowl each, the same start.
  static Options World(int worker, int size);

  explicit QuadraticTrainer(Options options);

  std::vector<TensorSpec> Tensors() const override;
  void SetLayout(const Layout& layout) override;
  absl::StatusOr<StepReport> Step(int64_t step, double /*rate*/) override;
  absl::StatusOr<StepReport> ComputeGradient(int64_t step, absl::Span<float> out) override;
  absl::Status ReadParameters(int64_t offset, absl::Span<float> out) override;
  absl::Status WriteParameters(int64_t offset, absl::Span<const float> parameters) override;
  void ResetInnerOptimizer() override { ++resets_; }
  absl::StatusOr<TrainerState> SaveState() override { return SaveDoubles(theta_); }
  absl::Status LoadState(TrainerState state) override { return LoadDoubles(std::move(state), &theta_); }
  absl::StatusOr<EvaluationReport> Evaluate(absl::Span<const float> parameters) override;

  int resets() const { return resets_; }

 private:
  Options options_;
  std::vector<double> theta_;
  int resets_ = 0;
};

}  // namespace diloco
