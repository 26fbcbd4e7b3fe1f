#include "worker/outer/boundary.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace diloco {
namespace {

TEST(BoundaryTest, OuterGradientIsOldMinusNew) {
  const std::vector<float> anchor = {1.0f, -2.0f, 0.5f};
  const std::vector<float> theta = {0.75f, -1.0f, 0.5f};
  std::vector<float> gradient(3);
  EXPECT_TRUE(TakeOuterGradient(anchor, theta, absl::MakeSpan(gradient)));
  EXPECT_EQ(gradient, (std::vector<float>{0.25f, -1.0f, 0.0f}));
}

TEST(BoundaryTest, FindsOneValueThatIsNotFiniteAnywhere) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    for (size_t at = 0; at < 37; ++at) {
      const std::vector<float> anchor(37, 1.0f);
      std::vector<float> theta(37, 2.0f);
      std::vector<float> gradient(37);
      EXPECT_TRUE(TakeOuterGradient(anchor, theta, absl::MakeSpan(gradient)));
      theta[at] = bad;
      EXPECT_TRUE(AllFinite(anchor));
      EXPECT_FALSE(AllFinite(theta)) << bad << " at " << at;
      EXPECT_FALSE(TakeOuterGradient(anchor, theta, absl::MakeSpan(gradient))) << bad << " at " << at;
    }
  }
}

TEST(BoundaryTest, OverflowOfTheDifferenceIsNotFinite) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const std::vector<float> anchor = {kLargest};
  std::vector<float> theta = {kLargest};
  std::vector<float> gradient(1);
  EXPECT_TRUE(TakeOuterGradient(anchor, theta, absl::MakeSpan(gradient)));
  theta[0] = -kLargest;
  EXPECT_FALSE(TakeOuterGradient(anchor, theta, absl::MakeSpan(gradient)));
}

TEST(BoundaryTest, StepsFromBaseInPlace) {
  const std::vector<float> base = {1.0f, 2.0f};
  std::vector<float> values = {4.0f, -8.0f};
  StepFromBase(base, 0.25f, values, absl::MakeSpan(values));
  EXPECT_EQ(values, (std::vector<float>{0.0f, 4.0f}));
}

}  // namespace
}  // namespace diloco
