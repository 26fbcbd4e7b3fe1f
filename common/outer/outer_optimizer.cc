#include "common/outer/outer_optimizer.h"

#include <cmath>
#include <cstddef>

#include "common/base/check.h"

namespace diloco {
namespace {

// The element-wise loops below vectorise without changing a bit: no reductions, and the build forbids contraction.

void NesterovStep(const StepScalars& scalars, absl::Span<const float> gradient, absl::Span<float> parameters,
                  absl::Span<const absl::Span<float>> state) {
  DILOCO_CHECK(state.size() == 1 && state[0].size() == parameters.size() && gradient.size() == parameters.size());
  const float rate = scalars.rate;
  const float momentum = scalars.momentum;
  const float clip_scale = scalars.clip_scale;
  const float* d = gradient.data();
  float* s = parameters.data();
  float* b = state[0].data();
  const size_t n = parameters.size();
  for (size_t i = 0; i < n; ++i) {
    const float g = clip_scale * d[i];
    b[i] = momentum * b[i] + g;
    s[i] = s[i] - rate * (g + momentum * b[i]);
  }
}

void SgdStep(const StepScalars& scalars, absl::Span<const float> gradient, absl::Span<float> parameters,
             absl::Span<const absl::Span<float>> state) {
  DILOCO_CHECK(state.empty() && gradient.size() == parameters.size());
  const float rate = scalars.rate;
  const float clip_scale = scalars.clip_scale;
  const float* d = gradient.data();
  float* s = parameters.data();
  const size_t n = parameters.size();
  for (size_t i = 0; i < n; ++i) s[i] = s[i] - rate * (clip_scale * d[i]);
}

// The optimizers that divide by the root of a second moment, which is all that they differ in: `next_square` gives the
// next v from v and g^2.
template <typename NextSquare>
void AdaptiveStep(const StepScalars& scalars, absl::Span<const float> gradient, absl::Span<float> parameters,
                  absl::Span<const absl::Span<float>> state, NextSquare next_square) {
  DILOCO_CHECK(state.size() == 2 && state[0].size() == parameters.size() && state[1].size() == parameters.size() &&
               gradient.size() == parameters.size());
  const float rate = scalars.rate / scalars.mean_correction;
  const float beta1 = scalars.beta1;
  const float variance_correction = scalars.variance_correction;
  const float epsilon = scalars.epsilon;
  const float clip_scale = scalars.clip_scale;
  const float* d = gradient.data();
  float* s = parameters.data();
  float* m = state[0].data();
  float* v = state[1].data();
  const size_t n = parameters.size();
  for (size_t i = 0; i < n; ++i) {
    const float g = clip_scale * d[i];
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = next_square(v[i], g * g);
    s[i] = s[i] - rate * (m[i] / (std::sqrt(v[i] / variance_correction) + epsilon));
  }
}

void AdamStep(const StepScalars& scalars, absl::Span<const float> gradient, absl::Span<float> parameters,
              absl::Span<const absl::Span<float>> state) {
  AdaptiveStep(scalars, gradient, parameters, state,
               [beta2 = scalars.beta2](float v, float square) { return beta2 * v + (1 - beta2) * square; });
}

void YogiStep(const StepScalars& scalars, absl::Span<const float> gradient, absl::Span<float> parameters,
              absl::Span<const absl::Span<float>> state) {
  AdaptiveStep(scalars, gradient, parameters, state, [beta2 = scalars.beta2](float v, float square) {
    const float step = (1 - beta2) * square;
    return v > square ? v - step : v < square ? v + step : v;
  });
}

void AdagradStep(const StepScalars& scalars, absl::Span<const float> gradient, absl::Span<float> parameters,
                 absl::Span<const absl::Span<float>> state) {
  AdaptiveStep(scalars, gradient, parameters, state, [](float v, float square) { return v + square; });
}

constexpr std::string_view kFedOpt = "Adaptive Federated Optimization, arXiv 2003.00295, algorithm 2";

constexpr OuterOptimizer kOptimizers[] = {
    {.name = "nesterov",
     .state_arrays = 1,
     .linear = true,
     .corrects_bias = false,
     .presets = {.rate = 0.4, .momentum = 0.9},
     .step = NesterovStep,
     .source = "DiLoCo, arXiv 2311.08105, section 2"},
    {.name = "sgd",
     .state_arrays = 0,
     .linear = true,
     .corrects_bias = false,
     .presets = {.rate = 0.4},
     .step = SgdStep,
     .source = "FedAvg, arXiv 1602.05629, algorithm 1, at rate 1"},
    {.name = "adam",
     .state_arrays = 2,
     .linear = false,
     .corrects_bias = false,
     .presets = {.rate = 0.01, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-3},
     .step = AdamStep,
     .source = kFedOpt},
    {.name = "yogi",
     .state_arrays = 2,
     .linear = false,
     .corrects_bias = false,
     .presets = {.rate = 0.01, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-3},
     .step = YogiStep,
     .source = kFedOpt},
    {.name = "adagrad",
     .state_arrays = 2,
     .linear = false,
     .corrects_bias = false,
     .presets = {.rate = 0.01, .beta1 = 0.9, .epsilon = 1e-3},
     .step = AdagradStep,
     .source = kFedOpt},
    {.name = "adamw",
     .state_arrays = 2,
     .linear = false,
     .corrects_bias = true,
     .presets = {.rate = 1e-3, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8},
     .step = AdamStep,
     .source = "Decoupled Weight Decay Regularization, arXiv 1711.05101, algorithm 2"},
};

}  // namespace

absl::Span<const OuterOptimizer> OuterOptimizers() { return kOptimizers; }

const OuterOptimizer* FindOuterOptimizer(std::string_view name) {
  for (const OuterOptimizer& optimizer : kOptimizers) {
    if (optimizer.name == name) return &optimizer;
  }
  return nullptr;
}

}  // namespace diloco
