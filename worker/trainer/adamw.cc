#include "worker/trainer/adamw.h"

#include <cmath>
#include <utility>

namespace diloco {

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

}  // namespace diloco
