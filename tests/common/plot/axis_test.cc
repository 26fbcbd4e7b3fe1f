#include "common/plot/axis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace diloco {
namespace {

constexpr PlotAxis kLinear = {.scale = AxisScale::kLinear};
constexpr PlotAxis kLog = {.scale = AxisScale::kLog};

// The ticks that have a number.
std::vector<std::string> Labels(const AxisRange& range) {
  std::vector<std::string> labels;
  for (const Tick& tick : range.Ticks()) {
    if (!tick.label.empty()) labels.push_back(tick.label);
  }
  return labels;
}

TEST(AxisTest, LinearAxesEndAtRoundNumbers) {
  const AxisRange range(kLinear, {1.53, 2.87, 2.0});
  EXPECT_DOUBLE_EQ(range.min(), 1.5);
  EXPECT_DOUBLE_EQ(range.max(), 3.0);
  EXPECT_EQ(Labels(range), (std::vector<std::string>{"1.5", "2", "2.5", "3"}));
  EXPECT_DOUBLE_EQ(range.Place(1.5), 0);
  EXPECT_DOUBLE_EQ(range.Place(2.25), 0.5);
  EXPECT_DOUBLE_EQ(range.Place(3), 1);
}

TEST(AxisTest, LinearTicksCrossZero) {
  EXPECT_EQ(Labels(AxisRange(kLinear, {-100, 100})), (std::vector<std::string>{"-100", "-50", "0", "50", "100"}));
}

TEST(AxisTest, LogarithmicAxesEndAtPowersOfTen) {
  const AxisRange range(kLog, {0.3, 400});
  EXPECT_DOUBLE_EQ(range.min(), 0.1);
  EXPECT_DOUBLE_EQ(range.max(), 1000);
  EXPECT_EQ(Labels(range), (std::vector<std::string>{"0.1", "1", "10", "100", "1000"}));
  EXPECT_EQ(range.Ticks().size(), 4 * 9 + 1u) << "and unnamed multiples";
  EXPECT_DOUBLE_EQ(range.Place(10), 0.5);
}

TEST(AxisTest, NamesMultiplesWithinOnePowerOfTen) {
  PlotAxis axis = kLog;
  axis.min = 20;
  axis.max = 60;
  EXPECT_EQ(Labels(AxisRange(axis, {})), (std::vector<std::string>{"20", "30", "40", "50", "60"}));
}

TEST(AxisTest, PowersOfTenStayEnds) {
  for (int exponent = -12; exponent <= 12; ++exponent) {
    const AxisRange range(kLog, {std::pow(10.0, exponent), std::pow(10.0, exponent + 1)});
    EXPECT_NEAR(range.max() / range.min(), 10, 1e-6) << exponent;
  }
}

TEST(AxisTest, GivenEndsWin) {
  PlotAxis axis = kLinear;
  axis.min = 0;
  axis.max = 100;
  const AxisRange range(axis, {40, 60});
  EXPECT_EQ(range.min(), 0);
  EXPECT_EQ(range.max(), 100);
  EXPECT_EQ(Labels(range), (std::vector<std::string>{"0", "20", "40", "60", "80", "100"}));
}

TEST(AxisTest, LeavesOutWhatItCannotShow) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const AxisRange range(kLog, {nan, infinity, 0, -5, 2});
  EXPECT_EQ(range.min(), 1);
  EXPECT_EQ(range.max(), 10);
  EXPECT_FALSE(range.Shows(nan));
  EXPECT_FALSE(range.Shows(infinity));
  EXPECT_FALSE(range.Shows(0));
  EXPECT_TRUE(range.Shows(1e-9));
  EXPECT_TRUE(AxisRange(kLinear, {}).Shows(-1));
}

TEST(AxisTest, OneValueOrNoneStillHasAWidth) {
  for (const PlotAxis& axis : {kLinear, kLog}) {
    for (const std::vector<double>& values : {std::vector<double>{}, std::vector<double>{3}, std::vector<double>{10}}) {
      const AxisRange range(axis, values);
      EXPECT_LT(range.min(), range.max());
      EXPECT_GE(range.Ticks().size(), 2u);
    }
  }
}

}  // namespace
}  // namespace diloco
