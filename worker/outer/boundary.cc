#include "worker/outer/boundary.h"

#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/base/check.h"

namespace diloco {
namespace {

// An exponent of all ones marks infinities and NaNs; adding one to it carries into bit 31 of the sum, so that or-ing
// the sums finds any of them without a branch an element.
uint32_t FiniteSum(float value) {
  constexpr uint32_t kExponent = 0x7F800000;
  constexpr uint32_t kOneExponent = 0x00800000;
  return (std::bit_cast<uint32_t>(value) & kExponent) + kOneExponent;
}
bool IsFiniteSum(uint32_t seen) { return (seen & 0x80000000u) == 0; }

}  // namespace

bool TakeOuterGradient(absl::Span<const float> anchor, absl::Span<const float> theta,
                       absl::Span<float> outer_gradient) {
  DILOCO_CHECK(anchor.size() == theta.size() && outer_gradient.size() == theta.size());
  uint32_t seen = 0;
  for (size_t i = 0; i < theta.size(); ++i) {
    const float difference = anchor[i] - theta[i];
    outer_gradient[i] = difference;
    seen |= FiniteSum(difference);
  }
  return IsFiniteSum(seen);
}

bool AllFinite(absl::Span<const float> values) {
  uint32_t seen = 0;
  for (const float value : values) seen |= FiniteSum(value);
  return IsFiniteSum(seen);
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
