// The passes over the parameters that the training thread makes at a round boundary. Element-wise float32, without
// contraction. Shapes: all [n]; `theta` may be `out`.
#pragma once

#include "absl/types/span.h"

namespace diloco {

// outer_gradient = anchor - theta (old minus new). Returns false when any element is not finite.
bool TakeOuterGradient(absl::Span<const float> anchor, absl::Span<const float> theta, absl::Span<float> outer_gradient);

// False when any element is not finite.
bool AllFinite(absl::Span<const float> values);

// out = base - coefficient * outer_gradient: the parameters after a boundary, by a linear optimizer.
void StepFromBase(absl::Span<const float> base, float coefficient, absl::Span<const float> outer_gradient,
                  absl::Span<float> out);

// theta = mixing * theta + (1 - mixing) * consensus (method `streaming`).
void Mix(float mixing, absl::Span<const float> consensus, absl::Span<float> theta);

}  // namespace diloco
