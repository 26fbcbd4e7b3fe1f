#include "worker/trainer/adamw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "common/outer/consensus.h"
#include "common/schedule/inner_schedule.h"
#include "common/schedule/outer_schedule.h"

namespace diloco {
namespace {

// The textbook algorithm, element by element in double.
struct NaiveAdamW {
  explicit NaiveAdamW(const InnerSection& settings, std::vector<double> start, size_t decayed_elements)
      : inner(settings), theta(std::move(start)), decayed(decayed_elements), m(theta.size()), v(theta.size()) {}

  void Step(std::vector<double> gradient, double rate) {
    double norm = 0;
    for (const double g : gradient) {
      norm += g * g;
    }
    norm = std::sqrt(norm);
    ++t;
    for (size_t i = 0; i < theta.size(); ++i) {
      const double g = inner.clip > 0 && norm > inner.clip ? gradient[i] * inner.clip / norm : gradient[i];
      m[i] = inner.beta1 * m[i] + (1 - inner.beta1) * g;
      v[i] = inner.beta2 * v[i] + (1 - inner.beta2) * g * g;
      const double mean = m[i] / (1 - std::pow(inner.beta1, t));
      const double variance = v[i] / (1 - std::pow(inner.beta2, t));
      const double decay = i < decayed ? inner.weight_decay * theta[i] : 0;
      theta[i] -= rate * (mean / (std::sqrt(variance) + inner.epsilon) + decay);
    }
  }

  InnerSection inner;
  std::vector<double> theta;
  size_t decayed;
  std::vector<double> m, v;
  int t = 0;
};

class AdamWTest : public ::testing::Test {
 protected:
  static constexpr size_t kSize = 6;
  static constexpr size_t kDecayed = 4;  // The first elements.

  explicit AdamWTest() : theta_(torch::zeros({kSize})), gradient_(torch::zeros({kSize})) {
    for (size_t i = 0; i < kSize; ++i) {
      start_.push_back(0.5 * static_cast<double>(i) - 1);
      theta_[static_cast<int64_t>(i)] = start_.back();
    }
  }

  AdamW Optimizer(const InnerSection& inner) {
    return AdamW(inner, theta_, gradient_, {theta_.narrow(0, 0, 2), theta_.narrow(0, 2, 2)});
  }

  // Some gradient for step `t`, of norm about `scale`.
  std::vector<double> SetGradient(int t, double scale) {
    std::vector<double> values;
    for (size_t i = 0; i < kSize; ++i) {
      values.push_back(scale * 0.5 * std::sin(1.0 + static_cast<double>(i * i) + 0.7 * t));
      gradient_[static_cast<int64_t>(i)] = values.back();
    }
    return values;
  }

  void ExpectTheta(const std::vector<double>& expected) {
    for (size_t i = 0; i < kSize; ++i) {
      EXPECT_NEAR(theta_[static_cast<int64_t>(i)].item<double>(), expected[i], 1e-6) << i;
    }
  }

  torch::Tensor theta_;
  torch::Tensor gradient_;
  std::vector<double> start_;
};

TEST_F(AdamWTest, FollowsTheTextbook) {
  const InnerSection inner = {.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0.1, .clip = 0};
  AdamW optimizer = Optimizer(inner);
  NaiveAdamW naive(inner, start_, kDecayed);
  for (int t = 0; t < 20; ++t) {
    const double rate = 0.01 * (1 + t % 3);
    naive.Step(SetGradient(t, 0.3), rate);
    optimizer.Step(rate);
  }
  ExpectTheta(naive.theta);
}

TEST_F(AdamWTest, ClipsTheGlobalNormOnlyWhenItIsAbove) {
  // Clipping changes the relative sizes of gradients over time, which the moments then show.
  const InnerSection inner = {.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-3, .weight_decay = 0, .clip = 1};
  AdamW optimizer = Optimizer(inner);
  NaiveAdamW naive(inner, start_, kDecayed);
  for (int t = 0; t < 10; ++t) {
    naive.Step(SetGradient(t, t % 2 == 0 ? 100 : 0.1), 0.01);
    optimizer.Step(0.01);
  }
  ExpectTheta(naive.theta);
}

TEST_F(AdamWTest, FirstStepMovesByTheRate) {
  AdamW optimizer = Optimizer({.weight_decay = 0, .clip = 0});
  SetGradient(0, 1e-2);
  optimizer.Step(0.25);
  for (size_t i = 0; i < kSize; ++i) {
    EXPECT_NEAR(std::abs(theta_[static_cast<int64_t>(i)].item<double>() - start_[i]), 0.25, 1e-5);
  }
}

TEST_F(AdamWTest, ResetForgetsTheMoments) {
  const InnerSection inner = {.weight_decay = 0.1, .clip = 0};
  AdamW optimizer = Optimizer(inner);
  SetGradient(0, 1);
  optimizer.Step(0.01);
  optimizer.Reset();
  std::vector<double> theta;
  for (size_t i = 0; i < kSize; ++i) {
    theta.push_back(theta_[static_cast<int64_t>(i)].item<double>());
  }
  NaiveAdamW naive(inner, theta, kDecayed);
  for (int t = 5; t < 8; ++t) {
    naive.Step(SetGradient(t, 1), 0.01);
    optimizer.Step(0.01);
  }
  ExpectTheta(naive.theta);
}

// `data-parallel` steps the consensus as a trainer of its own would step its parameters.
TEST_F(AdamWTest, IsTheOuterOptimizerOfDataParallel) {
  constexpr int kSteps = 40;
  const RunConfig config = ParseRunConfig(
                               "run: {id: a, workers: 1, rounds: 40}\nmethod: data-parallel\n"
                               "inner: {rate: 0.05, warmup_steps: 5, clip: 1, weight_decay: 0.1, beta1: 0.8}\n",
                               "test")
                               .value();
  AdamW optimizer = Optimizer(config.inner);
  Consensus consensus(FindOuterOptimizer(config.outer.optimizer), std::vector<float>(start_.begin(), start_.end()),
                      {{.offset = 0, .count = kDecayed}});
  for (int step = 0; step < kSteps; ++step) {
    // Some are clipped, some are not.
    const std::vector<double> values = SetGradient(step, step % 3 == 0 ? 4 : 0.5);
    const std::vector<float> gradient(values.begin(), values.end());
    const double norm = std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0));
    optimizer.Step(InnerRate(config.inner, kSteps, step));
    consensus.Apply(ComputeStepScalars(config, step, norm, 1), gradient);
    for (size_t i = 0; i < kSize; ++i) {
      const float ours = consensus.parameters()[i];
      EXPECT_NEAR(ours, theta_[static_cast<int64_t>(i)].item<float>(), 2e-6f * std::max(1.0f, std::abs(ours)))
          << "step " << step << " element " << i;
    }
  }
}

}  // namespace
}  // namespace diloco
