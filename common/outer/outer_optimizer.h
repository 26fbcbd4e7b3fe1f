// Outer optimizers: one row of a table each. A step is element-wise float32, compiled without contraction, so that the
// same inputs give the same bits on every machine.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace diloco {

// Computed once, by the coordinator, and sent with each global delta.
struct StepScalars {
  float rate = 0;                   // > 0.
  float momentum = 0;               // [0, 1).
  double participating_weight = 0;  // Total weight of the participating members.

  friend bool operator==(const StepScalars&, const StepScalars&) = default;
};

// Shapes: parameters [n], gradient [n], state: `state_arrays` arrays of [n]. In place. No allocation.
using OuterStepFunction = void (*)(const StepScalars& scalars, absl::Span<const float> gradient,
                                   absl::Span<float> parameters, absl::Span<const absl::Span<float>> state);

struct OuterOptimizer {
  std::string_view name;
  int state_arrays;    // float32 arrays as large as the parameters, 0 before the first step.
  bool linear;         // The step is linear in (state, gradient), so look-ahead folds into one pass.
  bool uses_momentum;  // False: `outer.momentum` is not a key, and the scalar is 0.
  OuterStepFunction step;
};

// All outer optimizers. `nesterov`: b = mu*b + g; s = s - eta*(g + mu*b). `sgd`: s = s - eta*g.
absl::Span<const OuterOptimizer> OuterOptimizers();

// nullptr when there is no such optimizer.
const OuterOptimizer* FindOuterOptimizer(std::string_view name);

}  // namespace diloco
