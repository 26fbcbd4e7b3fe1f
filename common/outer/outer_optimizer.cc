#include "common/outer/outer_optimizer.h"

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
  const float* g = gradient.data();
  float* s = parameters.data();
  float* b = state[0].data();
  const size_t n = parameters.size();
  for (size_t i = 0; i < n; ++i) {
    b[i] = momentum * b[i] + g[i];
    s[i] = s[i] - rate * (g[i] + momentum * b[i]);
  }
}

void SgdStep(const StepScalars& scalars, absl::Span<const float> gradient, absl::Span<float> parameters,
             absl::Span<const absl::Span<float>> state) {
  DILOCO_CHECK(state.empty() && gradient.size() == parameters.size());
  const float rate = scalars.rate;
  const float* g = gradient.data();
  float* s = parameters.data();
  const size_t n = parameters.size();
  for (size_t i = 0; i < n; ++i) s[i] = s[i] - rate * g[i];
}

constexpr OuterOptimizer kOptimizers[] = {
    {.name = "nesterov", .state_arrays = 1, .linear = true, .uses_momentum = true, .step = NesterovStep},
    {.name = "sgd", .state_arrays = 0, .linear = true, .uses_momentum = false, .step = SgdStep},
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
