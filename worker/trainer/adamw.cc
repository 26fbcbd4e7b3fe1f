#include "worker/trainer/adamw.h"

#include <cmath>
#include <utility>

#include "common/base/status_macros.h"

namespace diloco {
namespace {

constexpr char kMean[] = "inner.mean";
constexpr char kVariance[] = "inner.variance";
constexpr char kUpdates[] = "inner.updates";

std::vector<float> ToHost(const torch::Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.numel()));
  torch::from_blob(values.data(), {tensor.numel()}, torch::kFloat32).copy_(tensor);
  return values;
}

// In place, so that what was loaded is not held twice.
absl::Status ToDevice(TrainerState* state, const char* name, const torch::Tensor& like, torch::Tensor* tensor) {
  DILOCO_ASSIGN_OR_RETURN(std::vector<float> values, state->TakeArray(name, static_cast<size_t>(like.numel())));
  if (!tensor->defined()) *tensor = torch::empty_like(like);
  tensor->copy_(torch::from_blob(values.data(), {like.numel()}, torch::kFloat32));
  return absl::OkStatus();
}

}  // namespace

AdamW::AdamW(const InnerSection& inner, torch::Tensor theta, torch::Tensor gradient, std::vector<torch::Tensor> decayed)
    : inner_(inner), theta_(std::move(theta)), gradient_(std::move(gradient)), decayed_(std::move(decayed)) {}

void AdamW::Step(double rate) {
  const torch::NoGradGuard no_grad;
  ClipNorm(inner_.clip, gradient_);
  if (updates_++ == 0) {
    mean_ = torch::zeros_like(theta_);
    variance_ = torch::zeros_like(theta_);
  }
  const auto updates = static_cast<double>(updates_);
  const double mean_correction = 1 - std::pow(inner_.beta1, updates);
  const double variance_correction = 1 - std::pow(inner_.beta2, updates);
  mean_.mul_(inner_.beta1).add_(gradient_, 1 - inner_.beta1);
  variance_.mul_(inner_.beta2).addcmul_(gradient_, gradient_, 1 - inner_.beta2);
  for (torch::Tensor& tensor : decayed_) {
    tensor.mul_(1 - rate * inner_.weight_decay);
  }
  theta_.addcdiv_(mean_, (variance_ / variance_correction).sqrt_().add_(inner_.epsilon), -rate / mean_correction);
}

TrainerState AdamW::Save() const {
  const torch::NoGradGuard no_grad;
  TrainerState state;
  state.counts[kUpdates] = updates_;
  if (updates_ > 0) {
    state.arrays[kMean] = ToHost(mean_);
    state.arrays[kVariance] = ToHost(variance_);
  }
  return state;
}

absl::Status AdamW::Load(TrainerState state) {
  const torch::NoGradGuard no_grad;
  DILOCO_ASSIGN_OR_RETURN(const int64_t updates, state.TakeCount(kUpdates));
  if (updates > 0) {
    DILOCO_RETURN_IF_ERROR(ToDevice(&state, kMean, theta_, &mean_));
    DILOCO_RETURN_IF_ERROR(ToDevice(&state, kVariance, theta_, &variance_));
  }
  updates_ = updates;
  return state.CheckEmpty();
}

}  // namespace diloco
