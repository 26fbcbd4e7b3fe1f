#include "common/codec/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/base/limits.h"
#include "tests/common/codec/naive_codec.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;

std::string Encode(const Codec& codec, const std::vector<float>& values, Rounding rounding = kNearest) {
  std::string encoded(codec.encoded_bytes(values.size()), '\xAA');
  codec.encode(values, rounding, absl::MakeSpan(encoded));
  return encoded;
}

// From a buffer of exactly the encoded size, so that a read outside is an error under AddressSanitizer.
std::vector<float> Decode(const Codec& codec, std::string_view encoded, size_t elements) {
  const std::vector<char> exact(encoded.begin(), encoded.end());
  std::vector<float> values(elements, 12345.0f);
  codec.decode(std::string_view(exact.data(), exact.size()), absl::MakeSpan(values));
  return values;
}

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) {
    bits.push_back(std::bit_cast<uint32_t>(value));
  }
  return bits;
}

std::string Bytes(std::initializer_list<int> bytes) {
  std::string out;
  for (const int byte : bytes) {
    out.push_back(static_cast<char>(byte));
  }
  return out;
}

const Codec& Find(std::string_view name) { return *FindCodec(name); }

TEST(CodecTest, TableHoldsEveryNameOnce) {
  std::vector<std::string> names;
  for (const Codec& codec : Codecs()) {
    names.emplace_back(codec.name);
    EXPECT_EQ(FindCodec(codec.name), &codec);
  }
  EXPECT_THAT(names, ::testing::ElementsAre("fp32", "bf16", "fp8", "int8", "int4", "e3m0"));
  EXPECT_EQ(FindCodec("fp16"), nullptr);
  EXPECT_EQ(FindCodec(""), nullptr);
}

TEST(CodecTest, SizesAreThoseOfTheGrammar) {
  struct Row {
    uint64_t elements, fp32, bf16, eight_bits, four_bits;
  };
  for (const Row& row :
       {Row{0, 0, 0, 0, 0}, Row{1, 4, 2, 2, 2}, Row{2, 8, 4, 3, 2}, Row{3, 12, 6, 4, 3}, Row{63, 252, 126, 64, 33},
        Row{64, 256, 128, 65, 33}, Row{65, 260, 130, 67, 35}, Row{127, 508, 254, 129, 66}, Row{128, 512, 256, 130, 66},
        Row{uint64_t{1} << 40, uint64_t{1} << 42, uint64_t{1} << 41, 65 * (uint64_t{1} << 34),
            33 * (uint64_t{1} << 34)}}) {
    EXPECT_EQ(Find("fp32").encoded_bytes(row.elements), row.fp32);
    EXPECT_EQ(Find("bf16").encoded_bytes(row.elements), row.bf16);
    EXPECT_EQ(Find("fp8").encoded_bytes(row.elements), row.eight_bits);
    EXPECT_EQ(Find("int8").encoded_bytes(row.elements), row.eight_bits);
    EXPECT_EQ(Find("int4").encoded_bytes(row.elements), row.four_bits);
    EXPECT_EQ(Find("e3m0").encoded_bytes(row.elements), row.four_bits);
  }
}

TEST(CodecTest, FourBitCodecsStayBelowTheirBudget) {
  constexpr uint64_t kElements = 1'000'000;
  for (const char* name : {"int4", "e3m0"}) {
    EXPECT_EQ(8 * Find(name).encoded_bytes(kElements), 4'125'000u) << name;  // 4.125 bits a parameter.
  }
}

TEST(CodecTest, BytesOfHandComputedBlocks) {
  // 2 < 464 * 2^-7, but not 464 * 2^-8: scale 2^-7, byte 120, and 128, 256, 64 are powers of two. 2 < 127.5 * 2^-5, but
  // not 127.5 * 2^-6: scale 2^-5, byte 122. 2 < 7.5 * 2^-1, not 7.5 * 2^-2: byte 126.
  const std::vector<float> values = {1.0f, -2.0f, 0.5f};
  EXPECT_EQ(Encode(Find("fp32"), values), Bytes({0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0, 0, 0, 0, 0x3F}));
  EXPECT_EQ(Encode(Find("bf16"), values), Bytes({0x80, 0x3F, 0, 0xC0, 0, 0x3F}));
  EXPECT_EQ(Encode(Find("fp8"), values), Bytes({120, 14 << 3, 0x80 | 15 << 3, 13 << 3}));
  EXPECT_EQ(Encode(Find("int8"), values), Bytes({122, 32, 256 - 64, 16}));
  EXPECT_EQ(Encode(Find("int4"), values), Bytes({126, 0xC2, 0x01}));
  EXPECT_EQ(Encode(Find("e3m0"), values), Bytes({128, 0xF6, 0x05}));
  for (const Codec& codec : Codecs()) {
    EXPECT_EQ(Decode(codec, Encode(codec, values), 3), values) << codec.name;
  }
  // Half to even.
  EXPECT_EQ(Encode(Find("int8"), {64.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f}), Bytes({127, 64, 0, 2, 2, 0, 254}));
  // In steps: 448 is 14 of 32, 17 is 8.5 of 2, 1.5 * 2^-9 is between 1 and 2; -2^-10 is half a step.
  EXPECT_EQ(Encode(Find("fp8"), {448.0f, 17.0f, -0x1.8p-9f, -0x1p-10f}), Bytes({127, 0x7E, 11 << 3, 0x82, 0}));
  // Zero, denormals and what is far below the largest value: nothing but codes of zero.
  EXPECT_EQ(Encode(Find("e3m0"), {-0.0f, 1e-40f}), Bytes({0, 0}));
  EXPECT_EQ(Encode(Find("e3m0"), {1.0f, -1e-3f}), Bytes({127, 0x07}));
}

TEST(CodecTest, EdgeCasesGiveTheBytesOfTheNaiveCodec) {
  for (const testing::EdgeCase& edge : testing::EdgeCases()) {
    for (const Codec& codec : Codecs()) {
      SCOPED_TRACE(std::string(codec.name) + ": " + edge.name);
      const std::string encoded = Encode(codec, edge.values);
      ASSERT_EQ(encoded, testing::NaiveEncode(codec.name, edge.values));
      EXPECT_EQ(Bits(Decode(codec, encoded, edge.values.size())),
                Bits(testing::NaiveDecode(codec.name, encoded, edge.values.size())));
    }
  }
}

TEST(CodecTest, RandomValuesGiveTheBytesOfTheNaiveCodec) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    const std::vector<float> values = testing::RandomValues(20'011, seed);
    for (const Codec& codec : Codecs()) {
      SCOPED_TRACE(std::string(codec.name) + ", seed " + std::to_string(seed));
      EXPECT_TRUE(Encode(codec, values) == testing::NaiveEncode(codec.name, values));
    }
  }
}

TEST(CodecTest, EncodedFiniteValuesPassTheCheckAndOthersDoNot) {
  for (const testing::EdgeCase& edge : testing::EdgeCases()) {
    bool finite = true;
    for (const float value : edge.values) {
      finite = finite && std::isfinite(value);
    }
    for (const Codec& codec : Codecs()) {
      const absl::Status status = CheckEncoded(codec, Encode(codec, edge.values), edge.values.size());
      EXPECT_EQ(status.ok(), finite) << codec.name << ": " << edge.name << ": " << status;
    }
  }
}

TEST(CodecTest, ErrorsStayWithinTheStatedBounds) {
  const std::vector<float> values = testing::RandomValues(64 * 2000, 7);
  for (const char* name : {"fp8", "int8", "int4", "e3m0"}) {
    const Codec& codec = Find(name);
    const std::string encoded = Encode(codec, values);
    const std::vector<float> decoded = Decode(codec, encoded, values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const int scale = static_cast<unsigned char>(encoded[i / 64 * static_cast<size_t>(codec.block_bytes())]);
      const double x = values[i];
      const double y = decoded[i];
      if (scale == 255) {
        EXPECT_TRUE(std::isnan(y));
        continue;
      }
      const double step = std::ldexp(1.0, scale - 127);
      if (scale == 0 || std::fabs(x) < std::ldexp(1.0, -126)) {
        ASSERT_EQ(y, 0.0) << name << " element " << i;
      } else if (codec.name == "e3m0") {
        const double ratio = y / x;
        const bool in_range = std::fabs(x) >= step * std::exp2(-6.5);
        ASSERT_EQ(y != 0, in_range) << x << " scale " << step;
        ASSERT_TRUE(!in_range ||
                    (ratio > (std::fabs(x) < std::exp2(127.5) ? std::sqrt(0.5) : 0.5) && ratio < std::sqrt(2.0)))
            << x << " became " << y;
      } else if (codec.name == "fp8") {
        const bool at_the_top = std::fabs(x) >= 464 * std::exp2(119);
        ASSERT_LE(std::fabs(y - x), at_the_top ? 64 * step : std::max(std::fabs(x) / 16, step / 1024))
            << x << " became " << y;
      } else {
        const bool at_the_top = scale == (codec.name == "int8" ? 248 : 252);
        ASSERT_LE(std::fabs(y - x), at_the_top ? step : step / 2) << name << ": " << x << " became " << y;
      }
    }
  }
}

TEST(CodecTest, ScaleFitsTheLargestValue) {
  // One more bit of the largest value than of a signed code is never lost: amax is at least half of the range.
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(1e-30f, 1e30f);
  for (int i = 0; i < 1000; ++i) {
    const float amax = uniform(random);
    for (const auto& [name, limit] : {std::pair("fp8", 464.0), std::pair("int8", 127.5), std::pair("int4", 7.5)}) {
      const double steps = amax / std::ldexp(1.0, static_cast<unsigned char>(Encode(Find(name), {amax})[0]) - 127);
      EXPECT_LT(steps, limit);
      EXPECT_GE(steps, limit / 2);
    }
  }
}

TEST(CodecTest, FiniteBf16StaysFinite) {
  const float max = std::numeric_limits<float>::max();
  EXPECT_EQ(Encode(Find("bf16"), {max, -max}), Bytes({0x7F, 0x7F, 0x7F, 0xFF}));
}

TEST(CodecTest, AnyBytesDecodeLikeTheNaiveCodec) {
  std::mt19937 random(11);
  std::uniform_int_distribution<int> byte(0, 255);
  for (const Codec& codec : Codecs()) {
    for (int scale = 0; scale < 256; ++scale) {
      for (const size_t elements : {size_t{1}, size_t{15}, size_t{64}, size_t{64 + 33}}) {
        std::string encoded(codec.encoded_bytes(elements), '\0');
        for (char& c : encoded) {
          c = static_cast<char>(byte(random));
        }
        encoded[0] = static_cast<char>(scale);
        ASSERT_EQ(Bits(Decode(codec, encoded, elements)), Bits(testing::NaiveDecode(codec.name, encoded, elements)))
            << codec.name << " scale " << scale;
      }
    }
  }
}

TEST(CodecTest, ChunksOfWholeBlocksDecodeAlone) {
  const std::vector<float> values = testing::RandomValues(10'001, 5);
  for (const Codec& codec : Codecs()) {
    const std::string encoded = Encode(codec, values);
    const uint64_t chunk_bytes = ChunkBytesFor(codec, 1000);
    const uint64_t chunk_elements =
        chunk_bytes / static_cast<uint64_t>(codec.block_bytes()) * static_cast<uint64_t>(codec.block_elements);
    EXPECT_LE(chunk_bytes, 1000u);
    EXPECT_GT(chunk_bytes + static_cast<uint64_t>(codec.block_bytes()), 1000u);
    std::vector<float> joined;
    for (uint64_t at = 0; at < encoded.size(); at += chunk_bytes) {
      const uint64_t count = std::min<uint64_t>(chunk_elements, values.size() - joined.size());
      const std::vector<float> piece = Decode(codec, std::string_view(encoded).substr(at, chunk_bytes), count);
      joined.insert(joined.end(), piece.begin(), piece.end());
    }
    EXPECT_EQ(Bits(joined), Bits(Decode(codec, encoded, values.size()))) << codec.name;
  }
}

TEST(CodecTest, ChunkOfTheWireHoldsWholeBlocks) {
  EXPECT_EQ(ChunkBytesFor(Find("fp32"), kMaxChunkBytes), kMaxChunkBytes);
  EXPECT_EQ(ChunkBytesFor(Find("int8"), kMaxChunkBytes), 65u * 16131);  // floor(2^20 / 65) blocks.
  EXPECT_EQ(ChunkBytesFor(Find("e3m0"), kMaxChunkBytes), 33u * 31775);  // floor(2^20 / 33) blocks.
  EXPECT_EQ(ChunkBytesFor(Find("e3m0"), 33), 33u);
}

TEST(CodecTest, ProgrammerErrorsAbort) {
  std::string out(65, '\0');
  const std::vector<float> values(63);
  EXPECT_DEATH(Find("int8").encode(values, kNearest, absl::MakeSpan(out)), "check failed");
  std::string fits(64, '\0');
  EXPECT_DEATH(Find("int8").encode(values, {.stochastic = true, .first_index = 1}, absl::MakeSpan(fits)),
               "check failed");
  std::vector<float> decoded(65);
  EXPECT_DEATH(Find("e3m0").decode(std::string_view(out).substr(0, 34), absl::MakeSpan(decoded)), "check failed");
  EXPECT_DEATH(ChunkBytesFor(Find("e3m0"), 32), "check failed");
}

void ExpectRefused(std::string_view name, const std::string& encoded, uint64_t elements, const std::string& message) {
  const absl::Status status = CheckEncoded(Find(name), encoded, elements);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
  EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << name;
}

TEST(CheckEncodedTest, RefusesOtherSizes) {
  for (const Codec& codec : Codecs()) {
    const std::string encoded = Encode(codec, std::vector<float>(65, 1.0f));
    EXPECT_TRUE(CheckEncoded(codec, encoded, 65).ok());
    ExpectRefused(codec.name, encoded.substr(1), 65, "expected " + std::to_string(encoded.size()));
    ExpectRefused(codec.name, encoded + '\0', 65, "for 65 elements");
    ExpectRefused(codec.name, encoded, 0, "expected 0");
    EXPECT_TRUE(CheckEncoded(codec, "", 0).ok());
  }
}

TEST(CheckEncodedTest, NamesTheFirstBadBlockOrElement) {
  std::vector<float> values(5000, 1.0f);
  values[4321] = std::numeric_limits<float>::quiet_NaN();
  values[4999] = -std::numeric_limits<float>::infinity();
  ExpectRefused("fp32", Encode(Find("fp32"), values), 5000, "element 4321 of fp32 values is not finite");
  ExpectRefused("bf16", Encode(Find("bf16"), values), 5000, "element 4321 of bf16 values is not finite");
  for (const char* name : {"fp8", "int8", "int4", "e3m0"}) {
    ExpectRefused(name, Encode(Find(name), values), 5000, "block 67 of " + std::string(name) + " values is not finite");
  }
}

TEST(CheckEncodedTest, RefusesUnknownCodes) {
  std::string int8 = Encode(Find("int8"), std::vector<float>(65, 1.0f));
  int8.back() = '\x80';  // -128.
  ExpectRefused("int8", int8, 65, "element 64 (block 1, scale byte 121) of int8 values has an unknown code");
  for (const int code : {0x7F, 0xFF, 0x80}) {  // NaN, NaN, -0.
    ExpectRefused("fp8", Bytes({127, 0, code}), 2, "element 1 (block 0, scale byte 127) of fp8");
  }
  ExpectRefused("int4", Bytes({127, 0x81}), 2, "element 1 (block 0, scale byte 127) of int4");  // -8.
  ExpectRefused("e3m0", Bytes({127, 0x18}), 2, "element 0 (block 0, scale byte 127) of e3m0");  // -0.
}

TEST(CheckEncodedTest, RefusesScalesThatCouldDecodeToDenormalsOrInfinity) {
  for (int scale = 0; scale < 256; ++scale) {
    EXPECT_EQ(CheckEncoded(Find("fp8"), Bytes({scale, 0}), 1).ok(), scale == 0 || (scale >= 10 && scale <= 246))
        << scale;
    EXPECT_EQ(CheckEncoded(Find("int8"), Bytes({scale, 0}), 1).ok(), scale <= 248) << scale;
    EXPECT_EQ(CheckEncoded(Find("int4"), Bytes({scale, 0}), 1).ok(), scale <= 252) << scale;
    EXPECT_EQ(CheckEncoded(Find("e3m0"), Bytes({scale, 0}), 1).ok(), scale == 0 || (scale >= 7 && scale <= 254))
        << scale;
  }
}

TEST(CheckEncodedTest, RefusesBytesWithoutMeaning) {
  std::string zeros(2 * 33, '\0');
  EXPECT_TRUE(CheckEncoded(Find("e3m0"), zeros, 128).ok());
  zeros[40] = 1;
  ExpectRefused("e3m0", zeros, 128, "block 1 of e3m0 values is all zero, but has codes");
  ExpectRefused("int8", Bytes({0, 1}), 1, "block 0 of int8 values is all zero");
  ExpectRefused("int4", Bytes({127, 0x11}), 1, "a code after the last element");
  EXPECT_TRUE(CheckEncoded(Find("int4"), Bytes({127, 0x11}), 2).ok());
}

}  // namespace
}  // namespace diloco
