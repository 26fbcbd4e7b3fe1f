#include "worker/trainer/sgd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>

namespace diloco {
namespace {

TEST(SgdTest, ReachesTheMinimumOfAQuadraticAtTheClosedFormsPace) {
  // The gradient of 0.5 * a * theta^2 is a * theta, so each step multiplies theta by 1 - rate * a.
  const torch::Tensor a = torch::tensor({0.5f, 1.0f, 4.0f});
  const torch::Tensor theta = torch::tensor({8.0f, -3.0f, 2.0f});
  const torch::Tensor start = theta.clone();
  const torch::Tensor gradient = torch::zeros({3});
  Sgd optimizer({.clip = 0}, theta, gradient);
  for (int i = 0; i < 10; ++i) {
    gradient.copy_(a * theta);
    optimizer.Step(0.125);
  }
  for (int64_t i = 0; i < 3; ++i) {
    const double expected = start[i].item<double>() * std::pow(1 - 0.125 * a[i].item<double>(), 10);
    EXPECT_NEAR(theta[i].item<double>(), expected, 1e-6 * std::abs(expected)) << i;
  }
}

TEST(SgdTest, ClipsTheGlobalNormOnlyWhenItIsAbove) {
  const torch::Tensor theta = torch::zeros({2});
  const torch::Tensor gradient = torch::tensor({3.0f, -4.0f});
  Sgd optimizer({.clip = 2.5}, theta, gradient);
  optimizer.Step(1);
  EXPECT_TRUE(torch::allclose(theta, torch::tensor({-1.5f, 2.0f})));
  gradient.copy_(torch::tensor({1.5f, 2.0f}));  // Norm 2.5.
  optimizer.Step(0.5);
  EXPECT_TRUE(torch::allclose(theta, torch::tensor({-2.25f, 1.0f})));
}

TEST(SgdTest, IsWhatTheConfigurationNames) {
  const torch::Tensor gradient = torch::full({1}, 0.5);
  const torch::Tensor by_sgd = torch::zeros({1});
  MakeInnerOptimizer({.optimizer = InnerAlgorithm::kSgd}, by_sgd, gradient, {})->Step(0.1);
  EXPECT_NEAR(by_sgd.item<double>(), -0.05, 1e-7);
  // AdamW's first step has the rate's size, whatever the gradient's is.
  const torch::Tensor by_adamw = torch::zeros({1});
  MakeInnerOptimizer({.optimizer = InnerAlgorithm::kAdamW}, by_adamw, gradient, {})->Step(0.1);
  EXPECT_NEAR(by_adamw.item<double>(), -0.1, 1e-6);
}

}  // namespace
}  // namespace diloco
