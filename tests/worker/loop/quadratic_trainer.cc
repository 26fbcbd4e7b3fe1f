#include "tests/worker/loop/quadratic_trainer.h"

#include <limits>
#include <string>
#include <utility>

#include "common/base/check.h"

namespace diloco {

QuadraticTrainer::QuadraticTrainer(Options options) : options_(std::move(options)), theta_(options_.start) {
  DILOCO_CHECK(options_.a.size() == theta_.size() && options_.c.size() == theta_.size());
}

QuadraticTrainer::Options QuadraticTrainer::World(int worker, int size) {
  Options world;
  for (int i = 0; i < size; ++i) {
    world.a.push_back(0.3 + 0.1 * ((i * 5 + worker * 3) % 7));
    world.c.push_back(((i + 2 * worker) % 5) - 2.0);
    world.start.push_back(0.25 * i - 0.5);
  }
  return world;
}

std::vector<TensorSpec> QuadraticTrainer::Tensors() const {
  std::vector<TensorSpec> tensors;
  const auto size = static_cast<int64_t>(theta_.size());
  for (int t = 0; t < options_.tensors; ++t) {
    const int64_t count = size * (t + 1) / options_.tensors - size * t / options_.tensors;
    tensors.push_back({.name = "t" + std::to_string(t), .shape = {count}, .layer = t});
  }
  return tensors;
}

// Tensors stay in the trainer's order when each is a layer of its own.
void QuadraticTrainer::SetLayout(const Layout& layout) {
  int64_t offset = 0;
  for (const TensorPlacement& placement : layout.placements()) {
    DILOCO_CHECK(placement.offset == offset);
    offset += placement.count;
  }
}

absl::StatusOr<StepReport> QuadraticTrainer::Step(int64_t step, double /*rate*/) {
  if (options_.on_step) {
    options_.on_step(step);
  }
  double loss = 0;
  for (size_t i = 0; i < theta_.size(); ++i) {
    const double away = theta_[i] - options_.c[i];
    loss += 0.5 * options_.a[i] * away * away;
    theta_[i] -= options_.rate * options_.a[i] * away;
  }
  if (step == options_.nan_at_step) {
    theta_[0] = std::numeric_limits<double>::quiet_NaN();
  }
  return StepReport{.loss = loss, .tokens = options_.tokens};
}

absl::StatusOr<StepReport> QuadraticTrainer::ComputeGradient(int64_t step, absl::Span<float> out) {
  if (options_.on_step) {
    options_.on_step(step);
  }
  double loss = 0;
  for (size_t i = 0; i < theta_.size(); ++i) {
    const double away = theta_[i] - options_.c[i];
    loss += 0.5 * options_.a[i] * away * away;
    out[i] = static_cast<float>(options_.a[i] * away);
  }
  if (step == options_.nan_at_step) {
    out[0] = std::numeric_limits<float>::quiet_NaN();
  }
  return StepReport{.loss = loss, .tokens = options_.tokens};
}

absl::Status QuadraticTrainer::ReadParameters(int64_t offset, absl::Span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(theta_.at(static_cast<size_t>(offset) + i));
  }
  return absl::OkStatus();
}

absl::Status QuadraticTrainer::WriteParameters(int64_t offset, absl::Span<const float> parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    theta_.at(static_cast<size_t>(offset) + i) = parameters[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<EvaluationReport> QuadraticTrainer::Evaluate(absl::Span<const float> parameters) {
  if (!options_.evaluates) {
    return absl::FailedPreconditionError("no held-out data");
  }
  double loss = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const double away = static_cast<double>(parameters[i]) - options_.c[i];
    loss += 0.5 * options_.a[i] * away * away;
  }
  return EvaluationReport{.loss = loss, .tokens = parameters.size()};
}

}  // namespace diloco
