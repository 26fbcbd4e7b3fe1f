// PURE: the scalars of an outer step as a function of the configuration, the round and what was averaged. The
// coordinator calls it once for each global delta, and so does the train simulator; workers take what they are sent.
#pragma once

#include <cstdint>

#include "common/config/run_config.h"
#include "common/outer/step_scalars.h"

namespace diloco {

// Of the step that a fragment takes with the average of `round`, its (round + 1)-th. `average_norm`: L2 norm of that
// average as published, >= 0; `participating_weight` as in StepScalars.
//
// `data-parallel` (Payload::kGradient) takes InnerRate at step `round`, decay = rate * inner.weight_decay, and scales
// an average whose norm is above inner.clip down to it. Other methods have a constant rate and neither decay nor
// clipping. The result is valid (ValidateStepScalars) for any configuration that ParseRunConfig accepts.
StepScalars ComputeStepScalars(const RunConfig& config, int64_t round, double average_norm,
                               double participating_weight);

}  // namespace diloco
