// PURE: the inner learning rate as a function of the step.
#pragma once

#include <cstdint>

#include "common/config/run_config.h"
#include "common/config/run_settings.h"

namespace diloco {

// Of inner step `step` out of `total_steps` (rounds * H). With w = warmup_steps: rate * (step + 1) / (w + 1) below w;
// then half a cosine from `rate` at step w down to rate * final_ratio at the last step. A run that is over before its
// warm-up is never leaves it. 0 <= step; steps past the end get the last step's rate.
double InnerRate(const InnerSection& inner, int64_t total_steps, int64_t step);

// The same of a run whose settings may change: rate and length are those of the step's round. What a change does to
// earlier rounds is nothing.
double InnerRate(const RunSettings& settings, int64_t step);

}  // namespace diloco
