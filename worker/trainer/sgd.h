// Plain gradient descent, theta -= rate * gradient: no momentum and no weight decay, so that a replica's outer gradient
// after one step is its clipped gradient times the rate.
#pragma once

#include <torch/types.h>

#include "common/config/run_config.h"
#include "worker/trainer/inner_optimizer.h"

namespace diloco {

class Sgd final : public InnerOptimizer {
 public:
  // Shapes: as for MakeInnerOptimizer.
  Sgd(const InnerSection& inner, torch::Tensor theta, torch::Tensor gradient);

  void Step(double rate) override;
  void Reset() override {}
  TrainerState Save() const override { return {}; }
  absl::Status Load(TrainerState state) override { return state.CheckEmpty(); }

 private:
  const double clip_;
  torch::Tensor theta_;
  torch::Tensor gradient_;
};

}  // namespace diloco
