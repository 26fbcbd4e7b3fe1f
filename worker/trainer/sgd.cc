#include "worker/trainer/sgd.h"

#include <utility>

namespace diloco {

Sgd::Sgd(const InnerSection& inner, torch::Tensor theta, torch::Tensor gradient)
    : clip_(inner.clip), theta_(std::move(theta)), gradient_(std::move(gradient)) {}

void Sgd::Step(double rate) {
  const torch::NoGradGuard no_grad;
  ClipNorm(clip_, gradient_);
  theta_.sub_(gradient_, rate);
}

}  // namespace diloco
