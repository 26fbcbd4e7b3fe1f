// AdamW over one flat vector.
// Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization (2019), algorithm 2.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "common/config/run_config.h"
#include "worker/trainer/inner_optimizer.h"

namespace diloco {

class AdamW final : public InnerOptimizer {
 public:
  // Arguments: as for MakeInnerOptimizer.
  AdamW(const InnerSection& inner, torch::Tensor theta, torch::Tensor gradient, std::vector<torch::Tensor> decayed);

  void Step(double rate) override;
  void Reset() override { updates_ = 0; }
  TrainerState Save() const override;
  absl::Status Load(TrainerState state) override;

 private:
  InnerSection inner_;
  torch::Tensor theta_;
  torch::Tensor gradient_;
  std::vector<torch::Tensor> decayed_;
  // Not there before the first update: a worker that only computes gradients needs no memory for them.
  torch::Tensor mean_;      // First moment, [n].
  torch::Tensor variance_;  // Second moment, [n].
  int64_t updates_ = 0;     // Since the moments were zero.
};

}  // namespace diloco
