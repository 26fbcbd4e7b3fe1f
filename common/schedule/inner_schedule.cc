#include "common/schedule/inner_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/base/check.h"

namespace diloco {

double InnerRate(const InnerSection& inner, int64_t total_steps, int64_t step) {
  DILOCO_CHECK(step >= 0 && total_steps > 0);
  step = std::min(step, total_steps - 1);
  if (step <= inner.warmup_steps) {
    return inner.rate * static_cast<double>(step + 1) / static_cast<double>(inner.warmup_steps + 1);
  }
  const double progress =
      static_cast<double>(step - inner.warmup_steps) / static_cast<double>(total_steps - 1 - inner.warmup_steps);
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return inner.rate * (inner.final_ratio + (1 - inner.final_ratio) * cosine);
}

double InnerRate(const RunSettings& settings, int64_t step) {
  const int64_t inner_steps = settings.newest().inner_steps;
  const RunConfig& config = settings.At(step / inner_steps);
  return InnerRate(config.inner, config.run.rounds * inner_steps, step);
}

}  // namespace diloco
