#include "common/merge/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/common/codec/naive_codec.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;

const Codec& Find(std::string_view name) { return *FindCodec(name); }

// Outer gradients of `workers` workers, finite, encoded with the naive codec.
std::vector<std::string> Contributions(std::string_view codec, size_t workers, size_t elements) {
  std::vector<std::string> encoded;
  std::mt19937 random(17);
  std::normal_distribution<float> normal;
  for (size_t m = 0; m < workers; ++m) {
    std::vector<float> values(elements);
    for (size_t i = 0; i < elements; ++i) {
      values[i] = normal(random) * std::ldexp(1.0f, static_cast<int>(i / 64 % 40) - 20);
    }
    encoded.push_back(testing::NaiveEncode(codec, values));
  }
  return encoded;
}

std::vector<MergeInput> Inputs(const std::vector<std::string>& encoded, const std::vector<double>& weights) {
  std::vector<MergeInput> inputs;
  for (size_t m = 0; m < encoded.size(); ++m) {
    inputs.push_back({.encoded = encoded[m], .weight = weights[m]});
  }
  return inputs;
}

// The contract in one loop an element, on whole arrays.
std::vector<float> NaiveAverage(const std::vector<MergeInput>& inputs, std::string_view codec, size_t elements) {
  double total = 0;
  for (const MergeInput& input : inputs) {
    total += input.weight;
  }
  std::vector<float> average(elements, 0.0f);
  for (const MergeInput& input : inputs) {
    const float factor = static_cast<float>(input.weight / total);
    const std::vector<float> decoded = testing::NaiveDecode(codec, input.encoded, elements);
    for (size_t i = 0; i < elements; ++i) {
      average[i] = average[i] + factor * decoded[i];
    }
  }
  return average;
}

void ShuffledFor(int64_t count, const std::function<void(int64_t)>& body) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(23));
  std::for_each(order.begin(), order.end(), body);
}

void ThreadedFor(int64_t count, const std::function<void(int64_t)>& body) {
  std::atomic<int64_t> next = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&next, &body, count] {
      for (int64_t i = next++; i < count; i = next++) {
        body(i);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(MergeTest, GivesTheBytesOfTheNaiveLoopForEveryPairOfCodecs) {
  const std::vector<double> weights = {4096.0, 1.0, 12288.5};
  for (const Codec& uplink : Codecs()) {
    for (const Codec& downlink : Codecs()) {
      for (const size_t elements : {size_t{1}, size_t{63}, size_t{64}, size_t{129}, size_t{16384}, size_t{40'001}}) {
        SCOPED_TRACE(std::string(uplink.name) + " to " + std::string(downlink.name) + ", " + std::to_string(elements));
        const std::vector<std::string> encoded = Contributions(uplink.name, 3, elements);
        const std::vector<MergeInput> inputs = Inputs(encoded, weights);
        const absl::StatusOr<MergeResult> result = Merge(inputs, elements, uplink, downlink, SerialFor);
        ASSERT_TRUE(result.ok()) << result.status();
        const std::string expected = testing::NaiveEncode(downlink.name, NaiveAverage(inputs, uplink.name, elements));
        EXPECT_TRUE(result->encoded == expected);
        EXPECT_EQ(result->digest, DigestOf(expected));
        double squares = 0;
        for (const float value : testing::NaiveDecode(downlink.name, expected, elements)) {
          squares += static_cast<double>(value) * value;
        }
        EXPECT_NEAR(result->norm, std::sqrt(squares), 1e-12 * std::sqrt(squares));
      }
    }
  }
}

TEST(MergeTest, RoundsStochasticallyAsTheWholeArrayWould) {
  constexpr size_t kElements = 40'001;
  const Rounding rounding = {.stochastic = true, .key = 0x1234567800000001};
  const std::vector<std::string> encoded = Contributions("e3m0", 3, kElements);
  const std::vector<double> weights = {1, 2, 3};
  for (const Codec& downlink : Codecs()) {
    const absl::StatusOr<MergeResult> result =
        Merge(Inputs(encoded, weights), kElements, Find("e3m0"), downlink, ShuffledFor, {.rounding = rounding});
    ASSERT_TRUE(result.ok()) << result.status();
    const std::vector<float> average = NaiveAverage(Inputs(encoded, weights), "e3m0", kElements);
    EXPECT_TRUE(result->encoded == testing::NaiveEncode(downlink.name, average, rounding)) << downlink.name;
  }
}

TEST(MergeTest, ResidualIsWhatThePublishedAverageLacks) {
  constexpr size_t kElements = 40'001;
  const std::vector<std::string> encoded = Contributions("fp32", 2, kElements);
  const std::vector<MergeInput> inputs = Inputs(encoded, {1, 1});
  const std::vector<float> average = NaiveAverage(inputs, "fp32", kElements);
  for (const Codec& downlink : Codecs()) {
    std::vector<float> residual(kElements, 0.25F);
    std::vector<float> sums(kElements);
    for (size_t i = 0; i < kElements; ++i) {
      sums[i] = average[i] + residual[i];
    }
    const absl::StatusOr<MergeResult> result =
        Merge(inputs, kElements, Find("fp32"), downlink, ShuffledFor, {.residual = absl::MakeSpan(residual)});
    ASSERT_TRUE(result.ok()) << result.status();
    const std::string expected = testing::NaiveEncode(downlink.name, sums);
    EXPECT_TRUE(result->encoded == expected) << downlink.name;
    const std::vector<float> published = testing::NaiveDecode(downlink.name, expected, kElements);
    double squares = 0;
    for (size_t i = 0; i < kElements; ++i) {
      ASSERT_EQ(residual[i], sums[i] - published[i]) << downlink.name << " " << i;
      squares += static_cast<double>(published[i]) * published[i];
    }
    EXPECT_NEAR(result->norm, std::sqrt(squares), 1e-12 * std::sqrt(squares));
  }
}

TEST(MergeTest, IsTheWeightedAverage) {
  constexpr size_t kElements = 1000;
  const std::vector<std::string> encoded = Contributions("fp32", 5, kElements);
  const std::vector<double> weights = {1, 2, 3, 0.5, 1e-3};
  const absl::StatusOr<MergeResult> result =
      Merge(Inputs(encoded, weights), kElements, Find("fp32"), Find("fp32"), SerialFor);
  ASSERT_TRUE(result.ok());
  const std::vector<float> average = testing::NaiveDecode("fp32", result->encoded, kElements);
  for (size_t i = 0; i < kElements; ++i) {
    double expected = 0;
    double largest = 0;
    for (size_t m = 0; m < 5; ++m) {
      const double value = testing::NaiveDecode("fp32", encoded[m].substr(4 * i, 4), 1)[0];
      expected += weights[m] / 6.501 * value;
      largest = std::max(largest, std::fabs(value));
    }
    ASSERT_NEAR(average[i], expected, 5e-7 * largest) << i;
  }
}

TEST(MergeTest, OneInputOfAnyWeightPassesThrough) {
  const std::vector<std::string> encoded = Contributions("fp32", 1, 500);
  for (const double weight : {1e-300, 0.3, 7.0, 1e300}) {
    const absl::StatusOr<MergeResult> result =
        Merge(Inputs(encoded, {weight}), 500, Find("fp32"), Find("fp32"), SerialFor);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->encoded, encoded[0]);
  }
}

TEST(MergeTest, AddsInTheOrderGiven) {
  const std::vector<std::string> encoded = {testing::NaiveEncode("fp32", {3e8f}), testing::NaiveEncode("fp32", {-3e8f}),
                                            testing::NaiveEncode("fp32", {3.0f})};
  const auto merged = [](const std::vector<std::string>& contributions) {
    const absl::StatusOr<MergeResult> result =
        Merge(Inputs(contributions, {1, 1, 1}), 1, Find("fp32"), Find("fp32"), SerialFor);
    return testing::NaiveDecode("fp32", result->encoded, 1)[0];
  };
  EXPECT_EQ(merged(encoded), 1.0f);                               // (1e8 - 1e8) + 1.
  EXPECT_EQ(merged({encoded[0], encoded[2], encoded[1]}), 0.0f);  // (1e8 + 1) - 1e8: the 1 is lost.
}

TEST(MergeTest, IsTheSameHoweverTheWorkIsSpread) {
  constexpr size_t kElements = 300'007;
  const std::vector<std::string> encoded = Contributions("e3m0", 4, kElements);
  const std::vector<MergeInput> inputs = Inputs(encoded, {3, 1, 4, 1.5});
  const absl::StatusOr<MergeResult> serial = Merge(inputs, kElements, Find("e3m0"), Find("int8"), SerialFor);
  ASSERT_TRUE(serial.ok());
  for (const ParallelFor& parallel_for : {ParallelFor(ShuffledFor), ParallelFor(ThreadedFor)}) {
    const absl::StatusOr<MergeResult> other = Merge(inputs, kElements, Find("e3m0"), Find("int8"), parallel_for);
    ASSERT_TRUE(other.ok());
    EXPECT_TRUE(other->encoded == serial->encoded);
    EXPECT_EQ(other->digest, serial->digest);
    EXPECT_EQ(other->norm, serial->norm);
  }
}

TEST(MergeTest, NoInputsGiveZero) {
  for (const Codec& downlink : Codecs()) {
    const absl::StatusOr<MergeResult> result = Merge({}, 20'000, Find("e3m0"), downlink, SerialFor);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->encoded, std::string(downlink.encoded_bytes(20'000), '\0'));
    EXPECT_EQ(result->digest, DigestOf(result->encoded));
    EXPECT_EQ(result->norm, 0.0);
  }
}

TEST(MergeTest, NoElementsGiveNothing) {
  const absl::StatusOr<MergeResult> result = Merge({{"", 1.0}, {"", 2.0}}, 0, Find("e3m0"), Find("int8"), SerialFor);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->encoded, "");
  EXPECT_EQ(result->digest, DigestOf(""));
  EXPECT_EQ(result->norm, 0.0);
}

void ExpectRefused(const std::vector<MergeInput>& inputs, uint64_t elements, const std::string& message) {
  const absl::StatusOr<MergeResult> result = Merge(inputs, elements, Find("fp32"), Find("int8"), SerialFor);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(message));
}

TEST(MergeTest, RefusesOtherSizes) {
  const std::string two = testing::NaiveEncode("fp32", {1.0f, 2.0f});
  ExpectRefused({{two, 1.0}, {two.substr(1), 1.0}}, 2, "input 1 has 7 bytes of fp32 values, expected 8 for 2 elements");
  ExpectRefused({{two, 1.0}}, 3, "expected 12");
  ExpectRefused({{two, 1.0}}, 0, "expected 0");
}

TEST(MergeTest, RefusesWeightsThatAreNotPositiveAndFinite) {
  const std::string one = testing::NaiveEncode("fp32", {1.0f});
  for (const double weight :
       {0.0, -1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    ExpectRefused({{one, 1.0}, {one, weight}}, 1, "input 1 has weight");
  }
  ExpectRefused({{one, 1e308}, {one, 1e308}}, 1, "sum to infinity");
}

TEST(MergeTest, RefusesAnAverageThatIsNotFinite) {
  std::vector<float> values(40'000, 1.0f);
  values[39'999] = std::numeric_limits<float>::infinity();
  const std::string bad = testing::NaiveEncode("fp32", values);
  ExpectRefused({{bad, 1.0}}, 40'000, "of 1 inputs is not finite, first among the 16384 elements from 32768 on");
  values[39'999] = std::numeric_limits<float>::quiet_NaN();
  const std::string nan = testing::NaiveEncode("fp32", values);
  ExpectRefused({{bad, 1.0}, {nan, 1.0}}, 40'000, "of 2 inputs is not finite");
  for (const Codec& downlink : Codecs()) {
    EXPECT_FALSE(Merge({{bad, 1.0}}, 40'000, Find("fp32"), downlink, SerialFor).ok()) << downlink.name;
  }
}

TEST(MergeTest, HugeFiniteValuesStayFinite) {
  const float max = std::numeric_limits<float>::max();
  const std::string huge = testing::NaiveEncode("fp32", {max, -max});
  for (const Codec& downlink : Codecs()) {
    const absl::StatusOr<MergeResult> result = Merge({{huge, 1.0}, {huge, 1.0}}, 2, Find("fp32"), downlink, SerialFor);
    ASSERT_TRUE(result.ok()) << downlink.name << ": " << result.status();
    EXPECT_TRUE(CheckEncoded(downlink, result->encoded, 2).ok()) << downlink.name;
    EXPECT_GT(result->norm, max / 2) << downlink.name;
  }
}

}  // namespace
}  // namespace diloco
