#include "tests/common/codec/naive_codec.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace diloco::testing {
namespace {

constexpr size_t kBlock = 64;
const float kNan = std::bit_cast<float>(0x7FC00000u);

double Power(int exponent) { return std::ldexp(1.0, exponent); }

bool CountsAsZero(float x) { return std::fabs(static_cast<double>(x)) < Power(-126); }

struct IntegerRules {
  int bits;
  int max_code;
  int max_exponent;  // Of the scale, so that max_code * scale is finite; the smallest is -126.
};
constexpr IntegerRules kInt8 = {8, 127, 121};
constexpr IntegerRules kInt4 = {4, 7, 125};

int RoundHalfToEven(double x) {
  const double below = std::floor(x);
  const double fraction = x - below;
  const bool below_is_even = std::fmod(below, 2.0) == 0.0;
  return static_cast<int>(fraction > 0.5 || (fraction == 0.5 && !below_is_even) ? below + 1 : below);
}

// The smallest scale with which amax stays below (max_code + 1/2) steps.
int IntegerScaleExponent(const IntegerRules& rules, double amax) {
  int e = -126;
  while (e < rules.max_exponent && amax >= (rules.max_code + 0.5) * Power(e)) {
    ++e;
  }
  return e;
}

int IntegerCode(const IntegerRules& rules, int exponent, float x) {
  const int code = CountsAsZero(x) ? 0 : RoundHalfToEven(static_cast<double>(x) / Power(exponent));
  return std::min(std::max(code, -rules.max_code), rules.max_code);
}

// Compares squares, which are exact in double: |x| < 2^(e + 1/2).
bool BelowHalfPower(double x, int e) { return x * x < Power(2 * e + 1); }

int ExponentScaleExponent(double amax) {
  int e = -120;
  while (e < 127 && !BelowHalfPower(amax, e)) {
    ++e;
  }
  return e;
}

int ExponentCode(int exponent, float x) {
  if (CountsAsZero(x)) {
    return 0;
  }
  int k = 7;
  while (k > 0 && BelowHalfPower(x, exponent + k - 8)) {
    --k;
  }
  return k > 0 && x < 0 ? k + 8 : k;
}

std::string EncodeBlock(std::string_view codec, const std::vector<float>& block) {
  const int bits = codec == "int8" ? 8 : 4;
  double amax = 0;
  bool finite = true;
  for (const float x : block) {
    finite = finite && std::isfinite(x);
    amax = CountsAsZero(x) ? amax : std::max(amax, std::fabs(static_cast<double>(x)));
  }
  std::string out(1 + (block.size() * static_cast<size_t>(bits) + 7) / 8, '\0');
  if (!finite) {
    out[0] = static_cast<char>(255);
    return out;
  }
  if (amax == 0) {
    return out;
  }
  const IntegerRules& rules = codec == "int8" ? kInt8 : kInt4;
  const int exponent = codec == "e3m0" ? ExponentScaleExponent(amax) : IntegerScaleExponent(rules, amax);
  out[0] = static_cast<char>(exponent + 127);
  for (size_t i = 0; i < block.size(); ++i) {
    const int code = codec == "e3m0" ? ExponentCode(exponent, block[i]) : IntegerCode(rules, exponent, block[i]);
    if (bits == 8) {
      out[1 + i] = static_cast<char>(code);
    } else {
      const int nibble = (code + 16) % 16;
      char& byte = out[1 + i / 2];
      byte = static_cast<char>(i % 2 == 0 ? nibble : static_cast<unsigned char>(byte) + 16 * nibble);
    }
  }
  return out;
}

float DecodeCode(std::string_view codec, int scale, int code) {
  const int min_scale = codec == "e3m0" ? 7 : 1;
  const int max_scale = codec == "int8" ? 248 : codec == "int4" ? 252 : 254;
  if (scale == 0) {
    return 0.0f;
  }
  if (scale < min_scale || scale > max_scale) {
    return kNan;
  }
  if (codec == "e3m0") {
    if (code == 8) {
      return kNan;
    }
    const double magnitude = code % 8 == 0 ? 0.0 : Power(scale - 127 + code % 8 - 7);
    return static_cast<float>(code > 8 ? -magnitude : magnitude);
  }
  const int modulus = codec == "int8" ? 256 : 16;
  const int number = code >= modulus / 2 ? code - modulus : code;
  return number == -modulus / 2 ? kNan : static_cast<float>(number * Power(scale - 127));
}

// Of the bf16 below and above in magnitude the nearer one, at a tie the even one, never infinity for a finite value.
uint32_t Bf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t below = bits >> 16;
  if (std::isnan(x)) {
    return below | 0x40;
  }
  if (std::isinf(x) || (below & 0x7FFF) == 0x7F7F) {
    return below;
  }
  const double to_below = std::fabs(static_cast<double>(x) - std::bit_cast<float>(below << 16));
  const double to_above = std::fabs(static_cast<double>(std::bit_cast<float>((below + 1) << 16)) - x);
  return to_above < to_below || (to_above == to_below && below % 2 == 1) ? below + 1 : below;
}

void AppendLittleEndian(uint32_t word, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) {
    out->push_back(static_cast<char>(word >> (8 * i) & 255));
  }
}

uint32_t ByteAt(std::string_view bytes, size_t i) { return static_cast<unsigned char>(bytes[i]); }

}  // namespace

std::string NaiveEncode(std::string_view codec, const std::vector<float>& values) {
  std::string out;
  if (codec == "fp32" || codec == "bf16") {
    for (const float x : values) {
      codec == "fp32" ? AppendLittleEndian(std::bit_cast<uint32_t>(x), 4, &out) : AppendLittleEndian(Bf16(x), 2, &out);
    }
    return out;
  }
  for (size_t first = 0; first < values.size(); first += kBlock) {
    const size_t end = std::min(first + kBlock, values.size());
    out += EncodeBlock(codec, {values.begin() + static_cast<long>(first), values.begin() + static_cast<long>(end)});
  }
  return out;
}

std::vector<float> NaiveDecode(std::string_view codec, std::string_view encoded, size_t elements) {
  std::vector<float> out;
  size_t at = 0;
  while (out.size() < elements) {
    if (codec == "fp32" || codec == "bf16") {
      uint32_t bits = ByteAt(encoded, at) << 16 | ByteAt(encoded, at + 1) << 24;
      if (codec == "fp32") {
        bits = bits >> 16 | ByteAt(encoded, at + 2) << 16 | ByteAt(encoded, at + 3) << 24;
      }
      out.push_back(std::bit_cast<float>(bits));
      at += codec == "fp32" ? 4 : 2;
      continue;
    }
    const size_t count = std::min(kBlock, elements - out.size());
    const int scale = static_cast<int>(ByteAt(encoded, at++));
    for (size_t i = 0; i < count; ++i) {
      const uint32_t byte = ByteAt(encoded, at + (codec == "int8" ? i : i / 2));
      const uint32_t code = codec == "int8" ? byte : i % 2 == 0 ? byte % 16 : byte / 16;
      out.push_back(DecodeCode(codec, scale, static_cast<int>(code)));
    }
    at += codec == "int8" ? count : (count + 1) / 2;
  }
  return out;
}

std::vector<EdgeCase> EdgeCases() {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<EdgeCase> cases;
  for (const size_t n : {0, 1, 2, 3, 16, 17, 63, 64, 65, 127, 128, 129, 1000}) {
    std::vector<float> ramp(n);
    for (size_t i = 0; i < n; ++i) {
      ramp[i] = 0.37f * static_cast<float>(i + 1) * (i % 3 == 0 ? -1.0f : 1.0f);
    }
    cases.push_back({"ramp of " + std::to_string(n), ramp});
    cases.push_back({"zeros of " + std::to_string(n), std::vector<float>(n, 0.0f)});
  }
  // One block each of a constant, of its negative, alone in a block of zeros, and beside a value 2^-7 of it.
  for (const float x : {0.0f,
                        1.4e-45f,
                        1e-40f,
                        std::bit_cast<float>(0x007FFFFFu),
                        std::bit_cast<float>(0x00800000u),
                        1e-38f,
                        1.7e-38f,
                        1e-36f,
                        1.0f,
                        std::bit_cast<float>(0x3FB504F3u),
                        std::bit_cast<float>(0x3FB504F4u),
                        7.499f,
                        7.5f,
                        127.49f,
                        127.5f,
                        448.0f,
                        479.0f,
                        480.0f,
                        1e38f,
                        2.4e38f,
                        2.5e38f,
                        3e38f,
                        3.39e38f,
                        std::numeric_limits<float>::max(),
                        inf,
                        nan}) {
    const std::string name = std::to_string(std::bit_cast<uint32_t>(x));
    std::vector<float> sparse(70, 0.0f);
    sparse[13] = -x;
    std::vector<float> pair(64, 0.0f);
    pair[0] = x;
    pair[63] = x / 128;
    cases.push_back({"constant, bits " + name, std::vector<float>(64, x)});
    cases.push_back({"negative, bits " + name, std::vector<float>(64, -x)});
    cases.push_back({"sparse, bits " + name, sparse});
    cases.push_back({"pair, bits " + name, pair});
    cases.push_back({"alone, bits " + name, {x}});
  }
  // Ties of int8 (scale 1), of int4 (scale 1) and of bf16.
  cases.push_back({"ties int8", {64.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f, -126.5f, 125.5f}});
  cases.push_back({"ties int4", {4.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 6.5f, -6.5f}});
  cases.push_back(
      {"ties bf16",
       {std::bit_cast<float>(0x3F808000u), std::bit_cast<float>(0x3F818000u), std::bit_cast<float>(0x00008000u),
        std::bit_cast<float>(0x7F7F8000u), std::bit_cast<float>(0x7F800001u), std::bit_cast<float>(0xFF800001u)}});
  std::vector<float> powers;  // The whole range of e3m0 and what lies below it, at and around each boundary.
  for (int e = 0; e >= -9; --e) {
    for (const float m : {1.0f, 1.3f, 1.414213f, 1.41422f, 1.9f}) {
      powers.push_back(std::ldexp(m, e) * (e % 2 == 0 ? 1.0f : -1.0f));
    }
  }
  cases.push_back({"powers", powers});
  return cases;
}

std::vector<float> RandomValues(size_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-150, 127);
  std::uniform_int_distribution<int> kind(0, 9999);
  std::vector<float> values(elements);
  float scale = 1.0f;
  for (size_t i = 0; i < elements; ++i) {
    if (i % kBlock == 0) {
      scale = std::ldexp(1.0f, exponent(random));
    }
    const int k = kind(random);
    const float small = k % 8 == 0 ? 0.01f : 1.0f;
    values[i] = k == 0    ? std::numeric_limits<float>::quiet_NaN()
                : k == 1  ? -std::numeric_limits<float>::infinity()
                : k < 100 ? -0.0f
                          : normal(random) * scale * small;
  }
  return values;
}

}  // namespace diloco::testing
