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

// A block codec: what its codes stand for, in units of the scale.
struct Rules {
  int bits;
  bool twos_complement;            // Else the highest bit is the sign.
  std::vector<double> magnitudes;  // By code without sign, ascending from 0.
  bool log_space;                  // Rounding.
  double limit;                    // amax / scale stays below; of log_space its square does.
  int min_exponent, max_exponent;  // Of the scale.
};

Rules RulesOf(std::string_view codec) {
  Rules rules;
  if (codec == "int8" || codec == "int4") {
    const int max_code = codec == "int8" ? 127 : 7;
    rules = {codec == "int8" ? 8 : 4, true, {}, false, max_code + 0.5, -126, codec == "int8" ? 121 : 125};
    for (int code = 0; code <= max_code; ++code) {
      rules.magnitudes.push_back(code);
    }
  } else if (codec == "fp8") {
    rules = {8, false, {}, false, 464, -117, 119};
    for (int code = 0; code <= 0x7E; ++code) {
      const int e = code / 8;
      const int m = code % 8;
      rules.magnitudes.push_back(e == 0 ? m * Power(-9) : (8 + m) * Power(e - 10));
    }
  } else {
    rules = {4, false, {0}, true, 2, -120, 127};
    for (int k = 1; k <= 7; ++k) {
      rules.magnitudes.push_back(Power(k - 7));
    }
  }
  return rules;
}

int ScaleExponent(const Rules& rules, double amax, bool stochastic) {
  int e = rules.min_exponent;
  while (e < rules.max_exponent) {
    const double x = amax / Power(e);
    if (stochastic ? x <= rules.magnitudes.back() : (rules.log_space ? x * x : x) < rules.limit) {
      break;
    }
    ++e;
  }
  return e;
}

// Index of the magnitude that |x|, in units of the scale, becomes. Squares are exact in double.
size_t NearestMagnitude(const Rules& rules, double x) {
  size_t code = 0;
  while (code + 1 < rules.magnitudes.size()) {
    const double below = rules.magnitudes[code];
    const double above = rules.magnitudes[code + 1];
    const bool up = rules.log_space ? x * x > above * above / 2
                                    : x - below > above - x || (x - below == above - x && code % 2 == 1);
    if (!up) {
      break;
    }
    ++code;
  }
  return code;
}

// RoundingBits, in arithmetic modulo 2^64 and 2^32.
uint64_t Mix(uint64_t x) {
  constexpr uint64_t kModulus = uint64_t{1} << 32;
  x = (x ^ x / 65536) * 0x21F0AAADu % kModulus;
  x = (x ^ x / 32768) * 0x735A2D97u % kModulus;
  return x ^ x / 32768;
}
double RandomFraction(uint64_t key, uint64_t index) {
  constexpr uint64_t kModulus = uint64_t{1} << 32;
  key += index / kModulus * 0x9E3779B97F4A7C15u;
  const uint64_t mixed = Mix((index + key) % kModulus);
  return static_cast<double>(Mix(mixed ^ key / kModulus) / 2) * Power(-31);
}

// True when x in [below, above) becomes `above`.
bool GoesUp(double below, double x, double above, Rounding rounding, size_t i) {
  const double fraction = (x - below) / (above - below);
  return RandomFraction(rounding.key, rounding.first_index + i) < std::floor(fraction * Power(31)) * Power(-31);
}

size_t RandomMagnitude(const Rules& rules, double x, Rounding rounding, size_t i) {
  size_t code = rules.magnitudes.size() - 1;
  if (x >= rules.magnitudes[code]) {
    return code;
  }
  while (x < rules.magnitudes[code]) {
    --code;
  }
  return GoesUp(rules.magnitudes[code], x, rules.magnitudes[code + 1], rounding, i) ? code + 1 : code;
}

unsigned EncodeCode(const Rules& rules, int exponent, float x, Rounding rounding, size_t i) {
  if (CountsAsZero(x)) {
    return 0;
  }
  const double scaled = std::fabs(static_cast<double>(x)) / Power(exponent);
  const auto code = static_cast<unsigned>(rounding.stochastic ? RandomMagnitude(rules, scaled, rounding, i)
                                                              : NearestMagnitude(rules, scaled));
  const unsigned half = 1u << (rules.bits - 1);
  return code == 0 || x > 0 ? code : rules.twos_complement ? 2 * half - code : half + code;
}

float DecodeCode(const Rules& rules, int scale, unsigned code) {
  if (scale == 0) {
    return 0.0f;
  }
  if (scale - 127 < rules.min_exponent || scale - 127 > rules.max_exponent) {
    return kNan;
  }
  const unsigned half = 1u << (rules.bits - 1);
  const bool negative = code >= half;
  const unsigned magnitude = !negative ? code : rules.twos_complement ? 2 * half - code : code - half;
  if (magnitude >= rules.magnitudes.size() || (negative && magnitude == 0)) {
    return kNan;
  }
  const double value = rules.magnitudes[magnitude] * Power(scale - 127);
  return static_cast<float>(negative ? -value : value);
}

std::string EncodeBlock(const Rules& rules, const std::vector<float>& block, Rounding rounding) {
  double amax = 0;
  bool finite = true;
  for (const float x : block) {
    finite = finite && std::isfinite(x);
    amax = CountsAsZero(x) ? amax : std::max(amax, std::fabs(static_cast<double>(x)));
  }
  std::string out(1 + (block.size() * static_cast<size_t>(rules.bits) + 7) / 8, '\0');
  if (!finite) {
    out[0] = static_cast<char>(255);
    return out;
  }
  if (amax == 0) {
    return out;
  }
  const int exponent = ScaleExponent(rules, amax, rounding.stochastic);
  out[0] = static_cast<char>(exponent + 127);
  for (size_t i = 0; i < block.size(); ++i) {
    const unsigned code = EncodeCode(rules, exponent, block[i], rounding, i);
    char& byte = out[1 + (rules.bits == 8 ? i : i / 2)];
    byte = static_cast<char>(rules.bits == 8 || i % 2 == 0 ? code : static_cast<unsigned char>(byte) + 16 * code);
  }
  return out;
}

// Of the bf16 below and above in magnitude the nearer one, at a tie the even one, never infinity for a finite value.
uint32_t Bf16(float x, Rounding rounding, size_t i) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t below = bits >> 16;
  if (std::isnan(x)) {
    return below | 0x40;
  }
  if (std::isinf(x) || (below & 0x7FFF) == 0x7F7F) {
    return below;
  }
  if (rounding.stochastic) {
    const auto magnitude = [](uint32_t half) {
      return std::fabs(static_cast<double>(std::bit_cast<float>(half << 16)));
    };
    return GoesUp(magnitude(below), std::fabs(static_cast<double>(x)), magnitude(below + 1), rounding, i) ? below + 1
                                                                                                          : below;
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

std::string NaiveEncode(std::string_view codec, const std::vector<float>& values, Rounding rounding) {
  std::string out;
  if (codec == "fp32" || codec == "bf16") {
    for (size_t i = 0; i < values.size(); ++i) {
      codec == "fp32" ? AppendLittleEndian(std::bit_cast<uint32_t>(values[i]), 4, &out)
                      : AppendLittleEndian(Bf16(values[i], rounding, i), 2, &out);
    }
    return out;
  }
  const Rules rules = RulesOf(codec);
  for (size_t first = 0; first < values.size(); first += kBlock) {
    const size_t end = std::min(first + kBlock, values.size());
    out += EncodeBlock(rules, {values.begin() + static_cast<long>(first), values.begin() + static_cast<long>(end)},
                       rounding.From(first));
  }
  return out;
}

std::vector<float> NaiveDecode(std::string_view codec, std::string_view encoded, size_t elements) {
  std::vector<float> out;
  if (codec == "fp32" || codec == "bf16") {
    for (size_t i = 0; i < elements; ++i) {
      const size_t at = i * (codec == "fp32" ? 4 : 2);
      uint32_t bits = ByteAt(encoded, at) << 16 | ByteAt(encoded, at + 1) << 24;
      if (codec == "fp32") {
        bits = bits >> 16 | ByteAt(encoded, at + 2) << 16 | ByteAt(encoded, at + 3) << 24;
      }
      out.push_back(std::bit_cast<float>(bits));
    }
    return out;
  }
  const Rules rules = RulesOf(codec);
  size_t at = 0;
  while (out.size() < elements) {
    const size_t count = std::min(kBlock, elements - out.size());
    const int scale = static_cast<int>(ByteAt(encoded, at++));
    for (size_t i = 0; i < count; ++i) {
      const uint32_t byte = ByteAt(encoded, at + (rules.bits == 8 ? i : i / 2));
      out.push_back(DecodeCode(rules, scale, rules.bits == 8 ? byte : i % 2 == 0 ? byte % 16 : byte / 16));
    }
    at += rules.bits == 8 ? count : (count + 1) / 2;
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
                        463.9f,
                        464.0f,
                        479.0f,
                        480.0f,
                        1e38f,
                        2.4e38f,
                        3.08e38f,
                        3.09e38f,
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
  // Ties of fp8, int8 and int4 (scale 1), and of bf16.
  cases.push_back({"ties fp8",
                   {448.0f, 432.0f, 8.5f, 9.5f, -1.0625f, -1.1875f, 0x1.Fp-6f, 0x1.Ep-7f, 0x1p-10f, 0x1.8p-9f,
                    -0x1.4p-8f, -0x1.Cp-8f, 0x1p-11f}});
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
