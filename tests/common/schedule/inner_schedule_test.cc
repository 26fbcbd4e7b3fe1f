#include "common/schedule/inner_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace diloco {
namespace {

const InnerSection kInner = {.rate = 0.01, .final_ratio = 0.05, .warmup_steps = 9};

TEST(InnerScheduleTest, WarmsUpLinearly) {
  EXPECT_DOUBLE_EQ(InnerRate(kInner, 110, 0), 0.001);
  EXPECT_DOUBLE_EQ(InnerRate(kInner, 110, 4), 0.005);
  EXPECT_DOUBLE_EQ(InnerRate(kInner, 110, 9), 0.01);
}

TEST(InnerScheduleTest, FallsAlongACosineToTheFinalRatio) {
  // 100 steps lie between the peak at 9 and the end at 109.
  EXPECT_NEAR(InnerRate(kInner, 110, 59), 0.01 * (0.05 + 0.95 * 0.5), 1e-12);
  EXPECT_NEAR(InnerRate(kInner, 110, 34), 0.01 * (0.05 + 0.95 * 0.5 * (1 + std::sqrt(0.5))), 1e-12);
  EXPECT_NEAR(InnerRate(kInner, 110, 109), 0.0005, 1e-12);
  EXPECT_NEAR(InnerRate(kInner, 110, 1000), 0.0005, 1e-12);
}

TEST(InnerScheduleTest, WithoutWarmUpStartsAtThePeak) {
  const InnerSection inner = {.rate = 0.01, .final_ratio = 0, .warmup_steps = 0};
  EXPECT_DOUBLE_EQ(InnerRate(inner, 3, 0), 0.01);
  EXPECT_NEAR(InnerRate(inner, 3, 1), 0.005, 1e-12);
  EXPECT_NEAR(InnerRate(inner, 3, 2), 0, 1e-12);
  EXPECT_DOUBLE_EQ(InnerRate(inner, 1, 0), 0.01);
}

TEST(InnerScheduleTest, RunShorterThanTheWarmUpNeverLeavesIt) {
  EXPECT_DOUBLE_EQ(InnerRate(kInner, 5, 4), 0.005);
  EXPECT_DOUBLE_EQ(InnerRate(kInner, 5, 100), 0.005);
  EXPECT_DOUBLE_EQ(InnerRate(kInner, 10, 9), 0.01);
}

TEST(InnerScheduleTest, AChangeHoldsFromItsRoundOnAndNotBefore) {
  RunConfig config;
  config.run.rounds = 11;
  config.inner_steps = 10;
  config.inner = kInner;
  const absl::StatusOr<RunSettings> settings =
      RunSettings::Make(config, {{3, {{"inner.rate", "0.02"}}}, {5, {{"run.rounds", "21"}}}});
  ASSERT_TRUE(settings.ok()) << settings.status();
  InnerSection doubled = kInner;
  doubled.rate = 0.02;
  EXPECT_DOUBLE_EQ(InnerRate(*settings, 29), InnerRate(kInner, 110, 29));
  EXPECT_DOUBLE_EQ(InnerRate(*settings, 30), InnerRate(doubled, 110, 30));
  EXPECT_DOUBLE_EQ(InnerRate(*settings, 49), InnerRate(doubled, 110, 49));
  EXPECT_DOUBLE_EQ(InnerRate(*settings, 50), InnerRate(doubled, 210, 50));
  EXPECT_DOUBLE_EQ(InnerRate(*settings, 209), 0.001);
}

}  // namespace
}  // namespace diloco
