// Outer optimizers: one row of a table each. A step is element-wise float32, compiled without contraction and of
// operations that IEEE 754 rounds correctly, so that the same inputs give the same bits on every machine.
#pragma once

#include <optional>
#include <string_view>

#include "absl/types/span.h"

#include "common/outer/step_scalars.h"

namespace diloco {

// Shapes: parameters [n], gradient [n], state: `state_arrays` arrays of [n]. In place. No allocation. Weight decay is
// not its business: Consensus::Apply shrinks decayed elements before.
using OuterStepFunction = void (*)(const StepScalars& scalars, absl::Span<const float> gradient,
                                   absl::Span<float> parameters, absl::Span<const absl::Span<float>> state);

// What `outer.rate` and so on are when the configuration does not say. nullopt: not a key of the optimizer, and 0.
struct OuterPresets {
  double rate = 0;
  std::optional<double> momentum;
  std::optional<double> beta1;
  std::optional<double> beta2;
  std::optional<double> epsilon;
};

struct OuterOptimizer {
  std::string_view name;
  int state_arrays;    // float32 arrays as large as the parameters, 0 before the first step.
  bool linear;         // The step is linear in (state, gradient), so look-ahead folds into one pass.
  bool corrects_bias;  // False: the corrections are 1.
  OuterPresets presets;
  OuterStepFunction step;
  std::string_view source;
};

// All outer optimizers, in the order in which help texts list them. With g = clip_scale * gradient:
//   nesterov  b = mu*b + g ;  s = s - rate*(g + mu*b)
//   sgd       s = s - rate*g
//   others    m = beta1*m + (1 - beta1)*g ;  v as below ;
//             s = s - (rate / mean_correction) * m / (sqrt(v / variance_correction) + epsilon)
//     adam, adamw  v = beta2*v + (1 - beta2)*g^2      (adamw alone corrects the bias)
//     yogi         v = v - (1 - beta2)*g^2*sign(v - g^2)
//     adagrad      v = v + g^2
absl::Span<const OuterOptimizer> OuterOptimizers();

// nullptr when there is no such optimizer.
const OuterOptimizer* FindOuterOptimizer(std::string_view name);

}  // namespace diloco
