// Stochastic rounding: unbiased, deterministic, the same in pieces. That the bytes are those of the format is checked
// by codec_test and simd_codec_test.
#include "common/codec/rounding.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "common/codec/codec.h"
#include "tests/common/codec/naive_codec.h"

namespace diloco {
namespace {

std::string Encode(const Codec& codec, absl::Span<const float> values, Rounding rounding) {
  std::string encoded(codec.encoded_bytes(values.size()), '\0');
  codec.encode(values, rounding, absl::MakeSpan(encoded));
  return encoded;
}

std::vector<float> Rounded(const Codec& codec, absl::Span<const float> values, Rounding rounding) {
  std::vector<float> decoded(values.size());
  codec.decode(Encode(codec, values, rounding), absl::MakeSpan(decoded));
  return decoded;
}

Rounding Stochastic(uint64_t key, uint64_t first_index = 0) {
  return {.stochastic = true, .key = key, .first_index = first_index};
}

TEST(RoundingBitsTest, AreUniformInTheirHighAndLowBits) {
  // Chi-squared over 64 cells has mean 63 and standard deviation sqrt(126) = 11.2: 120 is five of them off.
  constexpr int kDraws = 1 << 16;
  for (const uint64_t key : {uint64_t{0}, uint64_t{1}, uint64_t{0x123456789ABCDEF0}}) {
    for (const int shift : {0, 10, 25}) {
      std::vector<double> counts(64);
      for (uint64_t i = 0; i < kDraws; ++i) {
        ++counts[RoundingBits(key, i) >> shift & 63];
      }
      double chi_squared = 0;
      for (const double count : counts) {
        chi_squared += (count - kDraws / 64.0) * (count - kDraws / 64.0) / (kDraws / 64.0);
      }
      EXPECT_LT(chi_squared, 120) << "key " << key << " shift " << shift;
    }
  }
}

TEST(RoundingBitsTest, NeighboursAreIndependent) {
  // Pairs of neighbours in index and in key: the correlation of 2^16 uniform pairs is 0 with deviation 2^-8.
  constexpr uint64_t kDraws = 1 << 16;
  const auto uniform = [](uint64_t key, uint64_t index) {
    return std::ldexp(static_cast<double>(RoundingBits(key, index)), -31) - 0.5;
  };
  double by_index = 0;
  double by_key = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    by_index += uniform(7, i) * uniform(7, i + 1) * 12;
    by_key += uniform(7, i) * uniform(8, i) * 12;
  }
  EXPECT_LT(std::fabs(by_index) / kDraws, 5.0 / 256);
  EXPECT_LT(std::fabs(by_key) / kDraws, 5.0 / 256);
}

TEST(RoundingRuleTest, KeysDifferByAllThatNamesThem) {
  const auto key = [](uint64_t seed, const char* sender, int64_t round, int fragment) {
    return RoundingRule{.stochastic = true, .seed = seed, .sender = sender}.For(round, fragment).key;
  };
  const std::set<uint64_t> keys = {key(1, "a", 1, 1), key(2, "a", 1, 1), key(1, "b", 1, 1),  key(1, "", 1, 1),
                                   key(1, "a", 2, 1), key(1, "a", 1, 2), key(1, "a", 11, 1), key(1, "a", 1, 11)};
  EXPECT_EQ(keys.size(), 8u);
  EXPECT_EQ(key(1, "a", 1, 1), key(1, "a", 1, 1));
  EXPECT_FALSE(RoundingRule{}.For(3, 4).stochastic);
}

// One block whose magnitudes lie on the codec's grid, between its points, below the smallest and at the largest.
std::vector<float> Probe(int which) {
  std::vector<float> block;
  for (int i = 0; i < 64; ++i) {
    const float magnitude = which == 0   ? static_cast<float>(i + 1) / 64
                            : which == 1 ? std::ldexp(1.0F + static_cast<float>(i % 8) / 8, -i / 4)
                                         : std::ldexp(0.9F, -i);
    block.push_back(i % 3 == 1 ? -magnitude : magnitude);
  }
  return block;
}

// No more than this lies between the magnitudes around x, in a block with this scale byte.
double Gap(std::string_view codec, double x, int scale_byte) {
  const double scale = std::ldexp(1.0, scale_byte - 127);
  return codec == "fp32"   ? 0
         : codec == "bf16" ? std::ldexp(std::fabs(x), -7)
         : codec == "fp8"  ? std::max(std::fabs(x) / 8, scale / 512)
         : codec == "e3m0" ? std::max(std::fabs(x), scale / 64)
                           : scale;
}

// The mean of N roundings of x between lo and hi has expectation x and variance (x - lo)(hi - x) / N: held at five
// deviations. An element of which one neighbour was never drawn is nearer to the other than a share of 12 / N of the
// gap (the chance of anything else is exp(-12)).
TEST(StochasticRoundingTest, TheMeanOfTheDecodedIsTheElement) {
  constexpr int kDraws = 4000;
  for (const Codec& codec : Codecs()) {
    for (const int which : {0, 1, 2}) {
      const std::vector<float> block = Probe(which);
      const int scale = static_cast<unsigned char>(Encode(codec, block, Stochastic(0))[0]);
      std::vector<double> sum(block.size());
      std::vector<float> low(block.size(), 10.0F);
      std::vector<float> high(block.size(), -10.0F);
      for (int draw = 0; draw < kDraws; ++draw) {
        const std::vector<float> decoded = Rounded(codec, block, Stochastic(static_cast<uint64_t>(draw)));
        for (size_t i = 0; i < block.size(); ++i) {
          sum[i] += decoded[i];
          low[i] = std::min(low[i], decoded[i]);
          high[i] = std::max(high[i], decoded[i]);
        }
      }
      for (size_t i = 0; i < block.size(); ++i) {
        SCOPED_TRACE(std::string(codec.name) + " probe " + std::to_string(which) + " element " + std::to_string(i));
        const double x = block[i];
        const double error = sum[i] / kDraws - x;
        if (low[i] == high[i]) {
          EXPECT_LE(std::fabs(error), 12.0 / kDraws * Gap(codec.name, x, scale)) << low[i];
          continue;
        }
        ASSERT_LE(low[i], x);
        ASSERT_GE(high[i], x);
        EXPECT_LE(std::fabs(error), 5 * std::sqrt((x - low[i]) * (high[i] - x) / kDraws));
      }
    }
  }
}

// Every draw is one of the two neighbouring magnitudes: rounding what was decoded changes nothing, and no magnitude
// lies between what was decoded and the element.
TEST(StochasticRoundingTest, TakesANeighbour) {
  for (const char* name : {"bf16", "fp8", "int8", "int4", "e3m0"}) {
    const Codec& codec = *FindCodec(name);
    const std::vector<float> block = Probe(0);
    std::set<float> magnitudes;  // All that the codec can decode to with this scale.
    for (uint64_t key = 0; key < 200; ++key) {
      for (const float value : Rounded(codec, block, Stochastic(key))) {
        magnitudes.insert(std::fabs(value));
      }
    }
    for (uint64_t key = 1000; key < 1010; ++key) {
      const std::vector<float> decoded = Rounded(codec, block, Stochastic(key));
      EXPECT_EQ(Rounded(codec, decoded, Stochastic(key + 1)), decoded) << name;
      for (size_t i = 0; i < block.size(); ++i) {
        const float a = std::min(std::fabs(block[i]), std::fabs(decoded[i]));
        const float b = std::max(std::fabs(block[i]), std::fabs(decoded[i]));
        const auto between = magnitudes.upper_bound(a);
        EXPECT_TRUE(between == magnitudes.end() || *between >= b) << name << ": " << block[i] << " to " << decoded[i];
      }
    }
  }
}

TEST(StochasticRoundingTest, NothingIsClippedBelowTheTop) {
  // 127.3 would be 127 steps to nearest; in expectation it is not.
  double sum = 0;
  for (uint64_t key = 0; key < 1000; ++key) {
    sum += Rounded(*FindCodec("int8"), std::vector<float>{127.3F}, Stochastic(key))[0];
  }
  // Steps of 2: between 126 and 128 with variance 1.3 * 0.7.
  EXPECT_NEAR(sum / 1000, 127.3, 5 * std::sqrt(1.3 * 0.7 / 1000));
  // At the top of float32, codes stop.
  const float max = std::numeric_limits<float>::max();
  for (const auto& [name, largest] :
       {std::pair("fp8", 448 * std::exp2(119.0)), std::pair("int8", 127 * std::exp2(121.0)),
        std::pair("int4", 7 * std::exp2(125.0)), std::pair("e3m0", std::exp2(127.0))}) {
    for (uint64_t key = 0; key < 20; ++key) {
      EXPECT_EQ(Rounded(*FindCodec(name), std::vector<float>{max, -max}, Stochastic(key)),
                (std::vector<float>{static_cast<float>(largest), static_cast<float>(-largest)}))
          << name;
    }
  }
}

TEST(StochasticRoundingTest, PiecesGiveTheBytesOfTheWhole) {
  const std::vector<float> values = testing::RandomValues(5000, 3);
  for (const Codec& codec : Codecs()) {
    const Rounding rounding = Stochastic(99, 64 * 1000);
    std::string joined;
    for (const size_t piece : {size_t{64}, size_t{640}, size_t{1024}, size_t{5000}}) {
      const size_t first = joined.size() / codec.encoded_bytes(64) * 64;
      const absl::Span<const float> part = absl::MakeConstSpan(values).subspan(first, piece);
      joined += Encode(codec, part, rounding.From(first));
    }
    EXPECT_TRUE(joined == Encode(codec, values, rounding)) << codec.name;
  }
}

TEST(StochasticRoundingTest, RepeatsAndDependsOnKeyAndPlace) {
  const std::vector<float> values(640, 0.3F);
  for (const char* name : {"bf16", "fp8", "int8", "int4", "e3m0"}) {
    const Codec& codec = *FindCodec(name);
    EXPECT_EQ(Encode(codec, values, Stochastic(1)), Encode(codec, values, Stochastic(1))) << name;
    EXPECT_NE(Encode(codec, values, Stochastic(1)), Encode(codec, values, Stochastic(2))) << name;
    EXPECT_NE(Encode(codec, values, Stochastic(1)), Encode(codec, values, Stochastic(1, 64))) << name;
  }
}

}  // namespace
}  // namespace diloco
