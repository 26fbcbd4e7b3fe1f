#include "common/outer/outer_optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "common/outer/consensus.h"

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

// The papers' algorithms in double precision, with x moving by +eta of new minus old, as they write them.
struct NaiveAdaptive {
  std::string name;
  std::vector<double> x;
  std::vector<double> m;
  std::vector<double> v;

  // delta: new minus old. `t` counts from 1.
  void Step(const std::vector<double>& delta, double eta, double beta1, double beta2, double tau, int t) {
    for (size_t i = 0; i < x.size(); ++i) {
      const double square = delta[i] * delta[i];
      m[i] = beta1 * m[i] + (1 - beta1) * delta[i];
      if (name == "adagrad") v[i] += square;
      if (name == "yogi") v[i] -= (1 - beta2) * square * (v[i] > square ? 1 : v[i] < square ? -1 : 0);
      if (name == "adam" || name == "adamw") v[i] = beta2 * v[i] + (1 - beta2) * square;
      double mean = m[i];
      double root = std::sqrt(v[i]);
      if (name == "adamw") {
        mean /= 1 - std::pow(beta1, t);
        root /= std::sqrt(1 - std::pow(beta2, t));
      }
      x[i] += eta * mean / (root + tau);
    }
  }
};

TEST(OuterOptimizerTest, AdaptiveOptimizersFollowTheirPapers) {
  constexpr float kRate = 0.03f, kBeta1 = 0.9f, kBeta2 = 0.98f, kTau = 1e-3f, kClip = 0.5f;
  for (const char* name : {"adam", "yogi", "adagrad", "adamw"}) {
    const OuterOptimizer* optimizer = FindOuterOptimizer(name);
    ASSERT_NE(optimizer, nullptr);
    ASSERT_EQ(optimizer->state_arrays, 2);
    EXPECT_FALSE(optimizer->linear);
    std::mt19937 random(2);
    std::normal_distribution<float> normal;
    std::vector<float> s(50);
    for (float& value : s) value = normal(random);
    std::vector<float> m(50, 0.0f);
    std::vector<float> v(50, 0.0f);
    NaiveAdaptive naive{
        .name = name, .x = {s.begin(), s.end()}, .m = std::vector<double>(50), .v = std::vector<double>(50)};
    for (int t = 1; t <= 12; ++t) {
      // Gradients shrink, so that v falls as well as rises.
      std::vector<float> g(50);
      for (float& value : g) value = normal(random) / static_cast<float>(t);
      std::vector<double> delta(50);
      for (size_t i = 0; i < g.size(); ++i) delta[i] = -static_cast<double>(kClip * g[i]);
      naive.Step(delta, kRate, kBeta1, kBeta2, kTau, t);
      StepScalars scalars{.rate = kRate, .beta1 = kBeta1, .beta2 = kBeta2, .epsilon = kTau, .clip_scale = kClip};
      if (optimizer->corrects_bias) {
        scalars.mean_correction = static_cast<float>(1 - std::pow(static_cast<double>(kBeta1), t));
        scalars.variance_correction = static_cast<float>(1 - std::pow(static_cast<double>(kBeta2), t));
      }
      const std::vector<absl::Span<float>> state = {absl::MakeSpan(m), absl::MakeSpan(v)};
      optimizer->step(scalars, g, absl::MakeSpan(s), state);
      for (size_t i = 0; i < s.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(s[i]), naive.x[i], 1e-6) << name << " step " << t << " element " << i;
        ASSERT_NEAR(static_cast<double>(v[i]), naive.v[i], 1e-6) << name << " step " << t << " element " << i;
      }
    }
  }
}

// Where every gradient was 0, nothing moves, and nothing divides by 0.
TEST(OuterOptimizerTest, ZeroGradientsMoveNothing) {
  for (const OuterOptimizer& optimizer : OuterOptimizers()) {
    std::vector<float> s = {1.5f};
    std::vector<std::vector<float>> arrays(static_cast<size_t>(optimizer.state_arrays), {0.0f});
    std::vector<absl::Span<float>> state;
    for (std::vector<float>& array : arrays) state.push_back(absl::MakeSpan(array));
    optimizer.step({.rate = 1, .beta1 = 0.5f, .beta2 = 0.5f, .epsilon = 1e-8f}, {0.0f}, absl::MakeSpan(s), state);
    EXPECT_EQ(s[0], 1.5f) << optimizer.name;
  }
}

TEST(OuterOptimizerTest, ClipScaleShrinksTheGradient) {
  for (const char* name : {"nesterov", "sgd"}) {
    const OuterOptimizer* optimizer = FindOuterOptimizer(name);
    Consensus scaled(optimizer, {1.0f});
    Consensus plain(optimizer, {1.0f});
    for (int step = 0; step < 3; ++step) {
      scaled.Apply({.rate = 0.5f, .momentum = 0.5f, .clip_scale = 0.25f}, {4.0f});
      plain.Apply({.rate = 0.5f, .momentum = 0.5f}, {1.0f});
    }
    EXPECT_EQ(scaled.parameters()[0], plain.parameters()[0]) << name;
    EXPECT_EQ(scaled.ComputeDigest(), plain.ComputeDigest()) << name;
  }
}

TEST(OuterOptimizerTest, UnknownNameIsNotFound) { EXPECT_EQ(FindOuterOptimizer("adamw2"), nullptr); }

}  // namespace
}  // namespace diloco
