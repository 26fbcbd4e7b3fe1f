#include "worker/outer/boundary.h"

#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/base/check.h"

namespace diloco {

bool TakeOuterGradient(absl::Span<const float> anchor, absl::Span<const float> theta,
                       absl::Span<float> outer_gradient) {
  DILOCO_CHECK(anchor.size() == theta.size() && outer_gradient.size() == theta.size());
  // An exponent of all ones marks infinities and NaNs; adding one to it carries into bit 31 of the sum, so that or-ing
  // the sums finds any of them without a branch an element.
  constexpr uint32_t kExponent = 0x7F800000;
  constexpr uint32_t kOneExponent = 0x00800000;
  uint32_t seen = 0;
  for (size_t i = 0; i < theta.size(); ++i) {
    const float difference = anchor[i] - theta[i];
    outer_gradient[i] = difference;
    seen |= (std::bit_cast<uint32_t>(difference) & kExponent) + kOneExponent;
  }
  return (seen & 0x80000000u) == 0;
}

void StepFromBase(absl::Span<const float> base, float coefficient, absl::Span<const float> outer_gradient,
                  absl::Span<float> out) {
  DILOCO_CHECK(base.size() == out.size() && outer_gradient.size() == out.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = base[i] - coefficient * outer_gradient[i];
}

void Mix(float mixing, absl::Span<const float> consensus, absl::Span<float> theta) {
  DILOCO_CHECK(consensus.size() == theta.size());
  const float rest = 1.0f - mixing;
  for (size_t i = 0; i < theta.size(); ++i) theta[i] = mixing * theta[i] + rest * consensus[i];
}

}  // namespace diloco
