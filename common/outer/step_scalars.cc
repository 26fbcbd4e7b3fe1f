#include "common/outer/step_scalars.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace diloco {
namespace {

// Each is false for a NaN.
bool IsShare(float value) { return value >= 0 && value <= 1; }
bool IsBelowOne(float value) { return value >= 0 && value < 1; }
bool IsFactor(float value) { return value > 0 && value <= 1; }

}  // namespace

absl::Status ValidateStepScalars(const StepScalars& scalars) {
  const bool valid = scalars.rate >= 0 && std::isfinite(scalars.rate) && scalars.participating_weight >= 0 &&
                     std::isfinite(scalars.participating_weight) && IsBelowOne(scalars.momentum) &&
                     IsBelowOne(scalars.beta1) && IsBelowOne(scalars.beta2) && IsShare(scalars.epsilon) &&
                     IsShare(scalars.decay) && IsFactor(scalars.mean_correction) &&
                     IsFactor(scalars.variance_correction) && IsFactor(scalars.clip_scale);
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "step scalars are out of range: rate %g, momentum %g, participating weight %g, betas %g and %g, epsilon %g, "
      "decay "
      "%g, corrections %g and %g, clip scale %g",
      scalars.rate, scalars.momentum, scalars.participating_weight, scalars.beta1, scalars.beta2, scalars.epsilon,
      scalars.decay, scalars.mean_correction, scalars.variance_correction, scalars.clip_scale));
}

StepScalars OneStepLater(StepScalars scalars) {
  // From 1 - beta^t to 1 - beta^(t+1); where nothing is corrected 1 stays 1.
  scalars.mean_correction = 1 - scalars.beta1 * (1 - scalars.mean_correction);
  scalars.variance_correction = 1 - scalars.beta2 * (1 - scalars.variance_correction);
  return scalars;
}

}  // namespace diloco
