#include "common/schedule/outer_schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/check.h"
#include "common/outer/method.h"
#include "common/outer/outer_optimizer.h"
#include "common/schedule/inner_schedule.h"

namespace diloco {
namespace {

constexpr float kSmallest = std::numeric_limits<float>::min();
constexpr float kBelowOne = 1 - std::numeric_limits<float>::epsilon() / 2;

// Numbers that are inside an open range as double may round to its end as float.
float BelowOne(double value) { return std::min(static_cast<float>(value), kBelowOne); }
float AboveZero(double value) { return std::max(static_cast<float>(value), kSmallest); }

// 1 - beta^steps, of the beta that the step itself uses.
float BiasCorrection(float beta, int64_t steps) {
  return AboveZero(1 - std::pow(static_cast<double>(beta), static_cast<double>(steps)));
}

}  // namespace

StepScalars ComputeStepScalars(const RunConfig& config, int64_t round, double average_norm,
                               double participating_weight) {
  DILOCO_CHECK(round >= 0 && average_norm >= 0);
  const OuterSection& outer = config.outer;
  const OuterOptimizer& optimizer = *FindOuterOptimizer(outer.optimizer);
  StepScalars scalars{.rate = AboveZero(outer.rate),
                      .momentum = BelowOne(outer.momentum),
                      .participating_weight = participating_weight,
                      .beta1 = BelowOne(outer.beta1),
                      .beta2 = BelowOne(outer.beta2),
                      .epsilon = optimizer.presets.epsilon ? AboveZero(outer.epsilon) : 0};
  if (FindMethod(config.method)->payload == Payload::kGradient) {
    const InnerSection& inner = config.inner;
    const double rate = InnerRate(inner, config.run.rounds, round);
    scalars.rate = static_cast<float>(rate);
    scalars.decay = static_cast<float>(rate * inner.weight_decay);
    if (inner.clip > 0 && average_norm > inner.clip) scalars.clip_scale = AboveZero(inner.clip / average_norm);
  }
  if (optimizer.corrects_bias) {
    scalars.mean_correction = BiasCorrection(scalars.beta1, round + 1);
    scalars.variance_correction = BiasCorrection(scalars.beta2, round + 1);
  }
  return scalars;
}

}  // namespace diloco
