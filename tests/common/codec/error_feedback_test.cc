#include "common/codec/error_feedback.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace diloco {
namespace {

const Codec& Find(std::string_view name) { return *FindCodec(name); }

std::vector<float> Decode(const Codec& codec, const std::string& encoded, size_t elements) {
  std::vector<float> decoded(elements);
  codec.decode(encoded, absl::MakeSpan(decoded));
  return decoded;
}

std::string Encode(ErrorFeedback* feedback, const Codec& codec, const std::vector<float>& values,
                   Rounding rounding = kNearest) {
  std::string encoded(codec.encoded_bytes(values.size()), '\0');
  feedback->Encode(codec, rounding, values, absl::MakeSpan(encoded));
  return encoded;
}

// What int4 with scale 1/16 (amax in [3.75, 7.5) steps) makes of a constant, in closed form: after n times v the
// decoded add up to the multiple of a step that is nearest to n * v.
TEST(ErrorFeedbackTest, SumOfTheDecodedIsTheSumToTheNearestStep) {
  const Codec& int4 = Find("int4");
  constexpr float kStep = 1.0F / 16;
  constexpr float kValue = 5.25F * kStep;
  ErrorFeedback feedback(std::vector<float>(1));
  double sum = 0;
  for (int n = 1; n <= 100; ++n) {
    sum += Decode(int4, Encode(&feedback, int4, {kValue}), 1)[0];
    // At half a step the even code of that round decides, so either side is right.
    EXPECT_LE(std::fabs(sum / kStep - 5.25 * n), 0.5) << n;
    EXPECT_EQ(feedback.residual()[0], 5.25F * kStep * static_cast<float>(n) - static_cast<float>(sum)) << n;
  }
}

TEST(ErrorFeedbackTest, WithoutItTheErrorsAddUp) {
  const Codec& int4 = Find("int4");
  ErrorFeedback none(std::vector<float>(1));
  double sum = 0;
  for (int n = 0; n < 100; ++n) {
    sum += Decode(int4, Encode(&none, int4, {5.25F / 16}), 1)[0];
    none.Clear();
  }
  EXPECT_EQ(sum, 100 * 5.0 / 16);  // 25 steps short.
}

// For random values: the decoded and the residual together are the sum of the values, and the residual does not grow.
TEST(ErrorFeedbackTest, SumFollowsForEveryCodec) {
  constexpr size_t kElements = 150;
  constexpr int kRounds = 300;
  for (const Codec& codec : Codecs()) {
    for (const bool stochastic : {false, true}) {
      SCOPED_TRACE(std::string(codec.name) + (stochastic ? ", stochastic" : ", nearest"));
      std::mt19937 random(5);
      std::normal_distribution<float> normal;
      ErrorFeedback feedback{std::vector<float>(kElements)};
      std::vector<double> owed(kElements);  // Sum of the values less that of the decoded.
      for (int round = 0; round < kRounds; ++round) {
        std::vector<float> values(kElements);
        for (size_t i = 0; i < kElements; ++i) {
          values[i] = normal(random);
          owed[i] += values[i];
        }
        const Rounding rounding{.stochastic = stochastic, .key = static_cast<uint64_t>(round)};
        const std::vector<float> decoded = Decode(codec, Encode(&feedback, codec, values, rounding), kElements);
        for (size_t i = 0; i < kElements; ++i) {
          owed[i] -= decoded[i];
          // float32 rounds each of the two sums by at most 2^-21, below 16.
          ASSERT_NEAR(feedback.residual()[i], owed[i], kRounds * 0x1p-20) << "element " << i << " round " << round;
          // Values stay below 5, so sums below 5 + 8 = 13; up to 16 no rounding errs by more than 8.
          ASSERT_LE(std::fabs(owed[i]), 8.0);
        }
      }
    }
  }
}

TEST(ErrorFeedbackTest, GivenBackCountsAsNeverSent) {
  const Codec& int8 = Find("int8");
  const std::vector<float> values = {1.0F, -0.30001F, 1e-6F};
  ErrorFeedback feedback(std::vector<float>(3));
  const std::string first = Encode(&feedback, int8, values);
  EXPECT_NE(feedback.residual()[1], 0);
  feedback.GiveBack(int8, first);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(feedback.residual()[i], values[i], 1e-7) << i;
  }
}

TEST(ErrorFeedbackTest, WhatIsNotFiniteIsNotOwed) {
  const float inf = std::numeric_limits<float>::infinity();
  const Codec& int8 = Find("int8");
  ErrorFeedback feedback(std::vector<float>(2));
  EXPECT_FALSE(CheckEncoded(int8, Encode(&feedback, int8, {1.0F, inf}), 2).ok());
  EXPECT_EQ(feedback.residual()[0], 0);
  EXPECT_EQ(feedback.residual()[1], 0);
  const std::string bad = Encode(&feedback, int8, {1.0F, std::numeric_limits<float>::quiet_NaN()});
  feedback.GiveBack(int8, bad);
  EXPECT_EQ(feedback.residual()[0], 0);
  EXPECT_TRUE(CheckEncoded(int8, Encode(&feedback, int8, {1.0F, 1.0F}), 2).ok());
}

TEST(ErrorFeedbackTest, StartsFromWhatIsRestored) {
  ErrorFeedback restored({0.25F});
  EXPECT_EQ(Decode(Find("fp32"), Encode(&restored, Find("fp32"), {1.0F}), 1)[0], 1.25F);
  EXPECT_EQ(restored.residual()[0], 0);
}

}  // namespace
}  // namespace diloco
