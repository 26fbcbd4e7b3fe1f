// The inner optimizer: AdamW over one flat vector, with global-norm clipping in front.
// Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization (2019), algorithm 2.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "common/config/run_config.h"

namespace diloco {

class AdamW {
 public:
  // Shapes: theta, gradient [n], float32, on one device; kept, not copied. `decayed`: the views of theta that weight
  // decay is for.
  AdamW(const InnerSection& inner, torch::Tensor theta, torch::Tensor gradient, std::vector<torch::Tensor> decayed);

  // One update of theta with learning rate `rate`. Clips the gradient in place if its norm is above inner.clip.
  void Step(double rate);

  // Forgets the moments; the next step is a first one.
  void Reset();

 private:
  InnerSection inner_;
  torch::Tensor theta_;
  torch::Tensor gradient_;
  std::vector<torch::Tensor> decayed_;
  torch::Tensor mean_;      // First moment, [n].
  torch::Tensor variance_;  // Second moment, [n].
  int64_t updates_ = 0;     // Since the moments were zero.
};

}  // namespace diloco
