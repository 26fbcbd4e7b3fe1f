#include "common/outer/step_scalars.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "common/outer/step_scalars_proto.h"

namespace diloco {
namespace {

// No two fields alike.
constexpr StepScalars kAll{.rate = 0.5f,
                           .momentum = 0.25f,
                           .participating_weight = 3,
                           .beta1 = 0.125f,
                           .beta2 = 0.375f,
                           .epsilon = 0.0625f,
                           .decay = 0.03125f,
                           .mean_correction = 0.875f,
                           .variance_correction = 0.625f,
                           .clip_scale = 0.75f};

TEST(StepScalarsTest, SurvivesTheWire) { EXPECT_EQ(StepScalarsFromProto(StepScalarsToProto(kAll)), kAll); }

// Whoever leaves the corrections out is not understood.
TEST(StepScalarsTest, NothingIsNotValid) {
  EXPECT_FALSE(ValidateStepScalars(StepScalarsFromProto(v1::StepScalars())).ok());
}

TEST(StepScalarsTest, EachFieldHasARange) {
  ASSERT_TRUE(ValidateStepScalars(kAll).ok());
  ASSERT_TRUE(ValidateStepScalars({}).ok());
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  struct Field {
    float StepScalars::*member;
    std::vector<float> bad;
  };
  const std::vector<Field> fields = {{&StepScalars::rate, {-0.1f, kInfinity, kNan}},
                                     {&StepScalars::momentum, {-0.1f, 1, kNan}},
                                     {&StepScalars::beta1, {-0.1f, 1, kNan}},
                                     {&StepScalars::beta2, {-0.1f, 1, kNan}},
                                     {&StepScalars::epsilon, {-0.1f, 1.5f, kNan}},
                                     {&StepScalars::decay, {-0.1f, 1.5f, kNan}},
                                     {&StepScalars::mean_correction, {-0.1f, 0, 1.5f, kNan}},
                                     {&StepScalars::variance_correction, {-0.1f, 0, 1.5f, kNan}},
                                     {&StepScalars::clip_scale, {-0.1f, 0, 1.5f, kNan}}};
  for (size_t i = 0; i < fields.size(); ++i) {
    for (const float value : fields[i].bad) {
      StepScalars bad = kAll;
      bad.*fields[i].member = value;
      EXPECT_EQ(ValidateStepScalars(bad).code(), absl::StatusCode::kInvalidArgument) << i << ": " << value;
    }
  }
  for (const double value : {-1.0, static_cast<double>(kInfinity), static_cast<double>(kNan)}) {
    StepScalars bad = kAll;
    bad.participating_weight = value;
    EXPECT_FALSE(ValidateStepScalars(bad).ok()) << value;
  }
}

TEST(StepScalarsTest, OneStepLaterAdvancesTheCorrectionsOnly) {
  StepScalars scalars = kAll;
  scalars.mean_correction = 1 - scalars.beta1;  // t = 1.
  scalars.variance_correction = 1 - scalars.beta2;
  StepScalars expected = scalars;
  for (int t = 2; t < 5; ++t) {
    scalars = OneStepLater(scalars);
    expected.mean_correction = 1 - std::pow(0.125f, static_cast<float>(t));
    expected.variance_correction = 1 - std::pow(0.375f, static_cast<float>(t));
    EXPECT_EQ(scalars, expected) << t;
  }
  const StepScalars uncorrected{.rate = 1, .beta1 = 0.9f, .beta2 = 0.99f};
  EXPECT_EQ(OneStepLater(uncorrected), uncorrected);
}

}  // namespace
}  // namespace diloco
