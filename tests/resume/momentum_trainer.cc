#include "tests/resume/momentum_trainer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"

namespace diloco::testing {
namespace {

constexpr float kMomentum = 0.75F;
constexpr float kRate = 0.0625F;

}  // namespace

MomentumTrainer::MomentumTrainer(Options options) : options_(std::move(options)) {
  for (int i = 0; i < options_.elements; ++i) theta_.push_back(0.125F * static_cast<float>(i % 7) - 0.25F);
  ResetInnerOptimizer();
}

std::vector<TensorSpec> MomentumTrainer::Tensors() const {
  std::vector<TensorSpec> tensors;
  for (int t = 0; t < options_.tensors; ++t) {
    tensors.push_back({.name = absl::StrCat("t", t), .shape = {options_.elements / options_.tensors}, .layer = t});
  }
  return tensors;
}

double MomentumTrainer::Loss(absl::Span<const float> theta) const {
  double loss = 0;
  for (size_t i = 0; i < theta.size(); ++i) loss += 0.5 * theta[i] * theta[i];
  return loss;
}

float MomentumTrainer::Gradient(int64_t step, size_t i) const {
  uint64_t hash = static_cast<uint64_t>(step) * 1000003 + static_cast<uint64_t>(options_.worker) * 10007 + i;
  hash = hash * 6364136223846793005 + 1442695040888963407;
  const float noise = static_cast<float>(hash >> 40) * 0x1.0p-24F - 0.5F;
  return theta_[i] - 0.1F * static_cast<float>((i + static_cast<size_t>(options_.worker)) % 5) + noise;
}

absl::StatusOr<StepReport> MomentumTrainer::Step(int64_t step, double /*rate*/) {
  if (options_.on_step) options_.on_step(step);
  const double loss = Loss(theta_);
  ++updates_;
  // A warm-up that counts updates, so that a count which is lost shows.
  const float rate = kRate * static_cast<float>(std::min<int64_t>(updates_, 10)) / 10.0F;
  for (size_t i = 0; i < theta_.size(); ++i) {
    momentum_[i] = kMomentum * momentum_[i] + Gradient(step, i);
    theta_[i] -= rate * momentum_[i];
  }
  if (step == options_.nan_at_step) theta_[0] = std::numeric_limits<float>::quiet_NaN();
  if (options_.on_loss) options_.on_loss(step, loss, rate);
  return Report(loss);
}

absl::StatusOr<StepReport> MomentumTrainer::ComputeGradient(int64_t step, absl::Span<float> out) {
  if (options_.on_step) options_.on_step(step);
  const double loss = Loss(theta_);
  for (size_t i = 0; i < theta_.size(); ++i) out[i] = Gradient(step, i);
  if (step == options_.nan_at_step) out[0] = std::numeric_limits<float>::quiet_NaN();
  if (options_.on_loss) options_.on_loss(step, loss, 0);
  return Report(loss);
}

absl::Status MomentumTrainer::ReadParameters(int64_t offset, absl::Span<float> out) {
  std::copy_n(theta_.begin() + offset, out.size(), out.begin());
  return absl::OkStatus();
}

absl::Status MomentumTrainer::WriteParameters(int64_t offset, absl::Span<const float> parameters) {
  std::copy(parameters.begin(), parameters.end(), theta_.begin() + offset);
  return absl::OkStatus();
}

void MomentumTrainer::ResetInnerOptimizer() {
  momentum_.assign(theta_.size(), 0.0F);
  updates_ = 0;
}

absl::StatusOr<TrainerState> MomentumTrainer::SaveState() {
  return TrainerState{.arrays = {{"inner.momentum", momentum_}}, .counts = {{"inner.updates", updates_}}};
}

absl::Status MomentumTrainer::LoadState(TrainerState state) {
  DILOCO_ASSIGN_OR_RETURN(momentum_, state.TakeArray("inner.momentum", theta_.size()));
  DILOCO_ASSIGN_OR_RETURN(updates_, state.TakeCount("inner.updates"));
  return state.CheckEmpty();
}

absl::StatusOr<EvaluationReport> MomentumTrainer::Evaluate(absl::Span<const float> parameters) {
  return EvaluationReport{.loss = Loss(parameters), .tokens = parameters.size()};
}

}  // namespace diloco::testing
