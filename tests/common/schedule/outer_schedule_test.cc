#include "common/schedule/outer_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "common/outer/method.h"
#include "common/outer/outer_optimizer.h"

namespace diloco {
namespace {

RunConfig Config(const std::string& lines) {
  return ParseRunConfig("run: {id: a, workers: 2, rounds: 110}\n" + lines, "test").value();
}

TEST(OuterScheduleTest, NesterovHasAConstantRate) {
  const RunConfig config = Config("outer: {rate: 0.7, momentum: 0.8}");
  for (const int64_t round : {0, 1, 109}) {
    EXPECT_EQ(ComputeStepScalars(config, round, 1e9, 3),
              (StepScalars{.rate = 0.7f, .momentum = 0.8f, .participating_weight = 3}));
  }
}

// FedOpt does not correct the bias.
TEST(OuterScheduleTest, FedOptSendsWhatItUses) {
  const RunConfig yogi = Config("method: diloco\nouter: {optimizer: yogi, rate: 0.5, beta1: 0.25, epsilon: 0.5}");
  EXPECT_EQ(ComputeStepScalars(yogi, 7, 1, 2),
            (StepScalars{.rate = 0.5f, .participating_weight = 2, .beta1 = 0.25f, .beta2 = 0.99f, .epsilon = 0.5f}));
  const RunConfig adagrad = Config("method: diloco\nouter: {optimizer: adagrad, rate: 0.5}");
  EXPECT_EQ(ComputeStepScalars(adagrad, 7, 1, 2),
            (StepScalars{.rate = 0.5f, .participating_weight = 2, .beta1 = 0.9f, .epsilon = 1e-3f}));
}

TEST(OuterScheduleTest, AdamWCorrectsTheBias) {
  const RunConfig config = Config("method: diloco\nouter: {optimizer: adamw, rate: 0.5, beta1: 0.5, beta2: 0.75}");
  const StepScalars first = ComputeStepScalars(config, 0, 0, 1);
  EXPECT_EQ(first.mean_correction, 0.5f);
  EXPECT_EQ(first.variance_correction, 0.25f);
  const StepScalars third = ComputeStepScalars(config, 2, 0, 1);
  EXPECT_EQ(third.mean_correction, 0.875f);         // 1 - 1/8.
  EXPECT_EQ(third.variance_correction, 0.578125f);  // 1 - 27/64.
  EXPECT_EQ(third.decay, 0.0f);
}

// The inner section gives everything: warm-up and cosine by round, which is the step.
TEST(OuterScheduleTest, DataParallelTakesTheInnerSection) {
  const RunConfig config = Config(
      "method: data-parallel\n"
      "inner: {rate: 0.01, final_ratio: 0, warmup_steps: 9, beta1: 0.5, beta2: 0.75, epsilon: 1e-6, weight_decay: 0.5, "
      "clip: 2}");
  const StepScalars first = ComputeStepScalars(config, 0, 1.5, 2);
  EXPECT_FLOAT_EQ(first.rate, 0.001f);
  EXPECT_FLOAT_EQ(first.decay, 0.0005f);
  EXPECT_EQ(first.beta1, 0.5f);
  EXPECT_EQ(first.beta2, 0.75f);
  EXPECT_EQ(first.epsilon, 1e-6f);
  EXPECT_EQ(first.clip_scale, 1.0f);
  EXPECT_FLOAT_EQ(ComputeStepScalars(config, 9, 0, 2).rate, 0.01f);
  EXPECT_FLOAT_EQ(ComputeStepScalars(config, 59, 0, 2).rate, 0.005f);
  const StepScalars last = ComputeStepScalars(config, 109, 8, 2);
  EXPECT_NEAR(last.rate, 0, 1e-9);
  EXPECT_EQ(last.clip_scale, 0.25f);
  EXPECT_TRUE(ValidateStepScalars(last).ok());
}

TEST(OuterScheduleTest, ClipZeroTurnsClippingOff) {
  const RunConfig config = Config("method: data-parallel\ninner: {clip: 0}");
  EXPECT_EQ(ComputeStepScalars(config, 0, 1e30, 1).clip_scale, 1.0f);
}

// Numbers that are in range as double may round to the end of the range as float.
TEST(OuterScheduleTest, ScalarsOfEveryAcceptedFileAreValid) {
  for (const Method& method : Methods()) {
    for (const OuterOptimizer& optimizer : OuterOptimizers()) {
      const bool gradient = method.payload == Payload::kGradient;
      std::string outer = "optimizer: " + std::string(optimizer.name);
      if (optimizer.presets.momentum) outer += ", momentum: 0.99999999999";
      std::string rates = "rate: " + std::string(gradient ? "1" : "1e-60");
      if (optimizer.presets.beta1) rates += ", beta1: 0.99999999999, epsilon: 1e-60";
      if (optimizer.presets.beta2) rates += ", beta2: 0.99999999999";
      const std::string inner = "clip: 1e-60, weight_decay: 1";
      std::string yaml = "method: " + std::string(method.name) + "\nouter: {" + outer + (gradient ? "" : ", " + rates) +
                         "}\ninner: {" + inner + (gradient ? ", " + rates : "") + "}\n";
      const bool shared = method.after == AfterBoundary::kLookahead && !optimizer.linear;
      if (shared) yaml += "lookahead: {momentum: shared}\n";
      if (method.after == AfterBoundary::kPrivateLookahead && !optimizer.linear) continue;
      const RunConfig config = Config(yaml);
      for (const int64_t round : {0, 50, 109}) {
        const StepScalars scalars = ComputeStepScalars(config, round, 1e30, 0);
        EXPECT_TRUE(ValidateStepScalars(scalars).ok()) << yaml << ValidateStepScalars(scalars);
        EXPECT_TRUE(ValidateStepScalars(OneStepLater(scalars)).ok()) << yaml;
      }
    }
  }
}

}  // namespace
}  // namespace diloco
