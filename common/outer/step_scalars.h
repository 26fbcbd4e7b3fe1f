// What an outer step needs besides the average. The coordinator computes it once (common/schedule/outer_schedule.h) and
// sends it with the global delta, so that no two machines' math libraries can disagree. PURE.
#pragma once

#include "absl/status/status.h"

namespace diloco {

// Defaults are what an optimizer or a method that does without the field leaves there.
struct StepScalars {
  float rate = 0;                   // >= 0, finite; 0 only where a schedule ends at 0.
  float momentum = 0;               // [0, 1).
  double participating_weight = 0;  // Total weight of the participating members, >= 0 and finite; 0: none is left.
  float beta1 = 0;                  // [0, 1). Of the mean of gradients.
  float beta2 = 0;                  // [0, 1). Of the mean of squared gradients.
  float epsilon = 0;                // [0, 1]. Added to the root of the latter; > 0 for optimizers that divide by it.
  float decay = 0;                  // [0, 1]. Rate times weight decay: decayed elements shrink by this share.
  float mean_correction = 1;        // (0, 1]. 1 - beta1^t at the t-th step.
  float variance_correction = 1;    // (0, 1]. 1 - beta2^t at the t-th step.
  float clip_scale = 1;             // (0, 1]. The average is multiplied by it first.

  friend bool operator==(const StepScalars&, const StepScalars&) = default;
};

// Errors, kInvalidArgument: a field out of its range.
absl::Status ValidateStepScalars(const StepScalars& scalars);

// What a worker expects of the step after the one with `scalars`: bias corrections advance, all else stays.
StepScalars OneStepLater(StepScalars scalars);

}  // namespace diloco
