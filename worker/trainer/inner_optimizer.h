// What takes an inner step: one update of a flat vector along its gradient.
#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "common/config/run_config.h"
#include "worker/trainer/trainer_state.h"

namespace diloco {

class InnerOptimizer {
 public:
  virtual ~InnerOptimizer() = default;

  // One update with learning rate `rate`. Clips the gradient in place if its norm is above inner.clip.
  virtual void Step(double rate) = 0;

  // Forgets what earlier steps left behind; the next step is a first one.
  virtual void Reset() = 0;

  // As Trainer's; names begin with "inner.".
  virtual TrainerState Save() const = 0;
  virtual absl::Status Load(TrainerState state) = 0;
};

// The optimizer that `inner` names. Shapes: theta, gradient [n], float32, on one device; kept, not copied. `decayed`:
// the views of theta that weight decay is for.
std::unique_ptr<InnerOptimizer> MakeInnerOptimizer(const InnerSection& inner, torch::Tensor theta,
                                                   torch::Tensor gradient, std::vector<torch::Tensor> decayed);

// Scales `gradient` down to norm `clip` if it is above; 0: never.
void ClipNorm(double clip, torch::Tensor& gradient);

}  // namespace diloco
