#include "tests/support/drift_trainer.h"

#include <algorithm>
#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace diloco::testing {

std::vector<TensorSpec> DriftTrainer::Tensors() const {
  std::vector<TensorSpec> tensors;
  for (int t = 0; t < options_.tensors; ++t) {
    const int64_t begin = options_.elements * t / options_.tensors;
    const int64_t end = options_.elements * (t + 1) / options_.tensors;
    tensors.push_back({.name = "drift" + std::to_string(t), .shape = {end - begin}, .layer = t});
  }
  return tensors;
}

template <typename Move>
StepReport DriftTrainer::Drift(int64_t step, const Move& move) const {
  const SteadyClock clock;
  const MonotonicTime end = clock.Now() + options_.step_time;
  uint64_t state = static_cast<uint64_t>(step) * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(options_.seed);
  for (size_t i = 0; i < theta_.size(); ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    move(i, 1e-3f * (static_cast<float>(state >> 40) * 0x1.0p-23f - 1.0f) - 0x1.0p-4f * theta_[i]);
  }
  Mutex mutex;
  CondVar never;
  MutexLock lock(&mutex);
  while (clock.Now() < end) {
    never.WaitUntil(&mutex, ToSteady(end));
  }
  return StepReport{.loss = 1.0, .tokens = 1 + static_cast<uint64_t>(options_.seed)};
}

absl::StatusOr<StepReport> DriftTrainer::Step(int64_t step, double /*rate*/) {
  return Drift(step, [this](size_t i, float by) { theta_[i] += by; });
}

absl::StatusOr<StepReport> DriftTrainer::ComputeGradient(int64_t step, absl::Span<float> out) {
  return Drift(step, [out](size_t i, float by) { out[i] = -by; });
}

absl::Status DriftTrainer::ReadParameters(int64_t offset, absl::Span<float> out) {
  std::copy_n(theta_.begin() + offset, out.size(), out.begin());
  return absl::OkStatus();
}

absl::Status DriftTrainer::WriteParameters(int64_t offset, absl::Span<const float> parameters) {
  std::copy(parameters.begin(), parameters.end(), theta_.begin() + offset);
  return absl::OkStatus();
}

absl::StatusOr<EvaluationReport> DriftTrainer::Evaluate(absl::Span<const float>) {
  return EvaluationReport{.loss = 1.0, .tokens = 1};
}

}  // namespace diloco::testing
