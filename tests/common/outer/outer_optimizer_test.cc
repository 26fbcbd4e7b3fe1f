#include "common/outer/outer_optimizer.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace diloco {
namespace {

TEST(OuterOptimizerTest, NesterovFollowsItsFormulaInDoublePrecision) {
  const OuterOptimizer* nesterov = FindOuterOptimizer("nesterov");
  ASSERT_NE(nesterov, nullptr);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> s(100);
  std::vector<float> b(100, 0.0f);
  for (float& value : s) value = uniform(random);
  std::vector<double> exact_s(s.begin(), s.end());
  std::vector<double> exact_b(100, 0.0);
  const StepScalars scalars{.rate = 0.4f, .momentum = 0.9f, .participating_weight = 1};
  for (int step = 0; step < 20; ++step) {
    std::vector<float> g(100);
    for (float& value : g) value = uniform(random);
    const std::vector<absl::Span<float>> state = {absl::MakeSpan(b)};
    nesterov->step(scalars, g, absl::MakeSpan(s), state);
    for (size_t i = 0; i < g.size(); ++i) {
      exact_b[i] = static_cast<double>(scalars.momentum) * exact_b[i] + static_cast<double>(g[i]);
      exact_s[i] -= static_cast<double>(scalars.rate) *
                    (static_cast<double>(g[i]) + static_cast<double>(scalars.momentum) * exact_b[i]);
    }
  }
  for (size_t i = 0; i < s.size(); ++i) EXPECT_NEAR(static_cast<double>(s[i]), exact_s[i], 2e-5) << i;
}

// With rate 1, SGD on the mean of (anchor - theta) is FedAvg: the new parameters are the mean of the workers'.
TEST(OuterOptimizerTest, SgdWithRateOneIsFederatedAveraging) {
  const OuterOptimizer* sgd = FindOuterOptimizer("sgd");
  ASSERT_NE(sgd, nullptr);
  std::vector<float> s = {1.0f, 2.0f};
  const std::vector<float> mean_of_workers = {0.5f, -1.0f};
  const std::vector<float> average = {s[0] - mean_of_workers[0], s[1] - mean_of_workers[1]};
  sgd->step({.rate = 1, .momentum = 0, .participating_weight = 1}, average, absl::MakeSpan(s), {});
  EXPECT_EQ(s, mean_of_workers);
}

TEST(OuterOptimizerTest, UnknownNameIsNotFound) { EXPECT_EQ(FindOuterOptimizer("adamw2"), nullptr); }

}  // namespace
}  // namespace diloco
