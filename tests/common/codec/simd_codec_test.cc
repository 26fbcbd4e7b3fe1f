// Every instruction set that this processor has against the scalar reference, and flush-to-zero.
#include "common/codec/simd_codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/codec/codec.h"
#include "common/codec/reference_codec.h"
#include "hwy/highway.h"
#include "tests/common/codec/naive_codec.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace diloco {
namespace {

struct Pair {
  std::string_view name;
  void (*encode)(absl::Span<const float>, Rounding, absl::Span<char>);
  void (*decode)(std::string_view, absl::Span<float>);
  void (*reference_encode)(absl::Span<const float>, Rounding, absl::Span<char>);
  void (*reference_decode)(std::string_view, absl::Span<float>);
};

constexpr Pair kPairs[] = {
    {"bf16", simd::EncodeBf16, simd::DecodeBf16, reference::EncodeBf16, reference::DecodeBf16},
    {"fp8", simd::EncodeFp8, simd::DecodeFp8, reference::EncodeFp8, reference::DecodeFp8},
    {"int8", simd::EncodeInt8, simd::DecodeInt8, reference::EncodeInt8, reference::DecodeInt8},
    {"int4", simd::EncodeInt4, simd::DecodeInt4, reference::EncodeInt4, reference::DecodeInt4},
    {"e3m0", simd::EncodeE3m0, simd::DecodeE3m0, reference::EncodeE3m0, reference::DecodeE3m0},
};

// Runs `body` once with each instruction set that this processor has.
template <class Body>
void ForEachTarget(const Body& body) {
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  ASSERT_FALSE(targets.empty());
  for (const int64_t target : targets) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// Any bit pattern at all, with exponents near each other within a block.
std::vector<float> RandomBits(size_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(elements);
  uint32_t base = 0;
  const auto next = [&random] { return static_cast<uint32_t>(random()); };
  for (size_t i = 0; i < elements; ++i) {
    base = i % 64 == 0 ? next() % 248 : base;
    values[i] = std::bit_cast<float>((next() & 0x807FFFFFu) | (base + next() % 9) << 23);
  }
  return values;
}

// Keys and places that set every part of the hash.
constexpr Rounding kRoundings[] = {
    kNearest,
    {.stochastic = true, .key = 0, .first_index = 0},
    {.stochastic = true, .key = 0xFEDCBA9876543210, .first_index = 64 * 12345},
    // Crosses 2^32, where the key changes.
    {.stochastic = true, .key = 0x0123456789ABCDEF, .first_index = (uint64_t{3} << 32) - 640},
};

std::string Encode(const Pair& pair, bool reference, const std::vector<float>& values, Rounding rounding) {
  std::string out(FindCodec(pair.name)->encoded_bytes(values.size()), '\x55');
  (reference ? pair.reference_encode : pair.encode)(values, rounding, absl::MakeSpan(out));
  return out;
}

std::vector<float> Decode(const Pair& pair, bool reference, const std::string& encoded, size_t elements) {
  std::vector<float> out(elements);
  (reference ? pair.reference_decode : pair.decode)(encoded, absl::MakeSpan(out));
  return out;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Runs `body` for each codec with each rounding.
template <class Body>
void ForEachEncoding(const Body& body) {
  for (const Pair& pair : kPairs) {
    for (const Rounding rounding : kRoundings) {
      SCOPED_TRACE(std::string(pair.name) + (rounding.stochastic ? ", stochastic, key " : ", nearest, key ") +
                   std::to_string(rounding.key));
      body(pair, rounding);
    }
  }
}

void ExpectSameAsReference(const std::vector<float>& values) {
  ForEachEncoding([&values](const Pair& pair, Rounding rounding) {
    const std::string encoded = Encode(pair, /*reference=*/true, values, rounding);
    EXPECT_TRUE(Encode(pair, /*reference=*/false, values, rounding) == encoded);
    EXPECT_TRUE(SameBits(Decode(pair, false, encoded, values.size()), Decode(pair, true, encoded, values.size())));
  });
}

TEST(ReferenceCodecTest, GivesTheBytesOfTheNaiveCodec) {
  std::vector<testing::EdgeCase> cases = testing::EdgeCases();
  cases.push_back({"random values", testing::RandomValues(10'007, 21)});
  cases.push_back({"random bits", RandomBits(10'007, 22)});
  for (const testing::EdgeCase& edge : cases) {
    SCOPED_TRACE(edge.name);
    ForEachEncoding([&edge](const Pair& pair, Rounding rounding) {
      const std::string encoded = Encode(pair, /*reference=*/true, edge.values, rounding);
      EXPECT_TRUE(encoded == testing::NaiveEncode(pair.name, edge.values, rounding));
      EXPECT_TRUE(SameBits(Decode(pair, true, encoded, edge.values.size()),
                           testing::NaiveDecode(pair.name, encoded, edge.values.size())));
    });
  }
}

TEST(SimdCodecTest, EveryInstructionSetGivesTheBytesOfTheReference) {
  std::vector<testing::EdgeCase> cases = testing::EdgeCases();
  cases.push_back({"random values", testing::RandomValues(100'003, 31)});
  cases.push_back({"random bits", RandomBits(100'003, 32)});
  ForEachTarget([&cases] {
    for (const testing::EdgeCase& edge : cases) {
      SCOPED_TRACE(edge.name);
      ExpectSameAsReference(edge.values);
    }
  });
}

TEST(SimdCodecTest, EveryInstructionSetDecodesAnyBytesLikeTheReference) {
  std::mt19937 random(41);
  std::vector<std::string> inputs;
  for (const Pair& pair : kPairs) {
    std::string bytes(FindCodec(pair.name)->encoded_bytes(64 * 1024 + 37), '\0');
    for (char& c : bytes) {
      c = static_cast<char>(random() & 255);
    }
    inputs.push_back(bytes);
  }
  ForEachTarget([&inputs] {
    for (size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_TRUE(SameBits(Decode(kPairs[i], false, inputs[i], 64 * 1024 + 37),
                           Decode(kPairs[i], true, inputs[i], 64 * 1024 + 37)))
          << kPairs[i].name;
    }
  });
}

TEST(SimdCodecTest, FlushToZeroChangesNothing) {
#if defined(__x86_64__)
  std::vector<testing::EdgeCase> cases = testing::EdgeCases();
  cases.push_back({"random values", testing::RandomValues(100'003, 51)});
  cases.push_back({"random bits", RandomBits(100'003, 52)});
  constexpr unsigned kFlushToZeroAndDenormalsAreZero = 0x8040;
  const unsigned before = _mm_getcsr();
  ForEachTarget([&] {
    for (const testing::EdgeCase& edge : cases) {
      SCOPED_TRACE(edge.name);
      ForEachEncoding([&](const Pair& pair, Rounding rounding) {
        const std::string encoded = Encode(pair, /*reference=*/true, edge.values, rounding);
        const std::vector<float> decoded = Decode(pair, /*reference=*/true, encoded, edge.values.size());
        _mm_setcsr(before | kFlushToZeroAndDenormalsAreZero);
        volatile float smallest = std::numeric_limits<float>::min();
        const bool is_on = smallest / 2 == 0.0f;
        const std::string flushed_encoded = Encode(pair, /*reference=*/false, edge.values, rounding);
        const std::vector<float> flushed = Decode(pair, /*reference=*/false, encoded, edge.values.size());
        const std::string flushed_reference = Encode(pair, /*reference=*/true, edge.values, rounding);
        _mm_setcsr(before);
        EXPECT_TRUE(is_on);
        EXPECT_TRUE(flushed_encoded == encoded);
        EXPECT_TRUE(SameBits(flushed, decoded));
        EXPECT_TRUE(flushed_reference == encoded);
      });
    }
  });
#else
  GTEST_SKIP() << "sets the x86 control register";
#endif
}

}  // namespace
}  // namespace diloco
