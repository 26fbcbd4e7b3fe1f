#include "worker/trainer/inner_optimizer.h"

#include <utility>

#include "worker/trainer/adamw.h"
#include "worker/trainer/sgd.h"

namespace diloco {

std::unique_ptr<InnerOptimizer> MakeInnerOptimizer(const InnerSection& inner, torch::Tensor theta,
                                                   torch::Tensor gradient, std::vector<torch::Tensor> decayed) {
  if (inner.optimizer == InnerAlgorithm::kSgd) {
    return std::make_unique<Sgd>(inner, std::move(theta), std::move(gradient));
  }
  return std::make_unique<AdamW>(inner, std::move(theta), std::move(gradient), std::move(decayed));
}

void ClipNorm(double clip, torch::Tensor& gradient) {
  if (clip == 0) {
    return;
  }
  const double norm = gradient.norm().item<double>();
  if (norm > clip) {
    gradient.mul_(clip / norm);
  }
}

}  // namespace diloco
