// The format of the block codecs, exactly: what reference_codec.cc, simd_codec.cc and the tests implement, each on its
// own. All rules are on bit patterns or exact, and none meets a denormal, so that every processor gives the same bytes,
// with flush-to-zero on or off.
//
// Input. An element whose magnitude is below 2^-126 (a denormal) counts as zero, and so does -0; what follows is about
// the others. `amax` is the largest magnitude of the block, `bits(x)` the bit pattern of a float32.
//
// Scale byte s:
//   0        all zero: every element decodes to +0. Codes are written as 0.
//   255      not finite: some element was NaN or Inf; every element decodes to NaN. Codes are written as 0.
//   others   s = clamp(((bits(amax) + amax_rounding) >> 23) - scale_shift, min_scale, max_scale), and the scale is the
//            float32 whose exponent is s: 2^(s - 127). min_scale keeps every decoded value at 2^-126 or above,
//            max_scale keeps it finite. A byte outside [min_scale, max_scale] is unknown.
//
// int8, int4. Value = code * scale, code in [-max_code, max_code], max_code 127 or 7; -128 or -8 is unknown. The scale
// is the smallest power of two with which amax rounds to at most max_code, that is amax < (max_code + 1/2) * scale.
// Code = element / scale, rounded to nearest, half to even. So the error is at most scale / 2, and nothing is clipped,
// but for amax >= (max_code + 1/2) * 2^(max_scale - 127): there codes stop at max_code, and the error at scale.
// A larger scale would double the step; a smaller one would clip the largest elements, always towards zero (for int4
// and normally distributed values, clipping from 8.5 instead of 7.5 steps on has a tenth less error, but shrinks them).
//
// fp8. A code is an OCP E4M3 byte: sign (bit 7), exponent e (bits 6 to 3, bias 7), mantissa m (bits 2 to 0). Its number
// is +-2^(e - 7) * (1 + m / 8), for e = 0 it is +-m * 2^-9; the largest is 448, there are no infinities. Value = number
// * scale. Both NaNs (0x7F, 0xFF) and the negative zero (0x80) are unknown. The scale is the smallest power of two with
// which amax is below 464 * scale, and so rounds to at most 448. Number = element / scale, rounded to nearest, half to
// even m. So the error is at most 2^-4 of the element, or 2^-10 * scale if that is more, and nothing is clipped, but
// for amax >= 464 * 2^(max_scale - 127): there numbers stop at 448.
//
// e3m0. A code is a sign (bit 3) and k (bits 2 to 0). Value = +-2^(k - 7) * scale for k in [1, 7]; code 0 is zero; code
// 8, a negative zero, is unknown. So the scale is the largest of seven magnitudes. Rounding is to nearest in log space,
// for amax (which gives the scale) as for every element: 2^e stands for [2^(e - 1/2), 2^(e + 1/2)). No float32 is an
// odd power of sqrt(2), so there are no ties. Magnitudes below 2^-6.5 * scale become zero. The ratio of a decoded value
// to its element is between 1/sqrt(2) and sqrt(2), but for amax >= 2^127.5, where it is above 1/2.
//
// Stochastic rounding. The rules above are those of rounding to nearest. With Rounding::stochastic only the scale and
// the choice of a magnitude differ: the scale is the smallest power of two with which amax is at most the largest
// magnitude, and an element of magnitude x, lo <= x < hi for neighbouring magnitudes (zero is one of them, and the
// space is linear for e3m0 as well), becomes hi if RoundingBits(key, index) < floor(2^31 * (x - lo) / (hi - lo)), and
// else lo. So nothing is clipped, and the expected decoded value is the element, to 2^-31 * (hi - lo), but for elements
// that count as zero and for amax above the largest magnitude of max_scale, where magnitudes stop.
//
// Any unknown byte or code decodes to NaN. NaN is always 0x7FC00000.
//
// bf16, for completeness: bits(x) + 0x7FFF + bit 16 of bits(x), upper half: nearest even, denormals included. A finite
// value stays finite: what would round to infinity becomes the largest finite bf16, of the same sign. A NaN keeps its
// upper half and becomes quiet, Inf is kept. Stochastic rounding as above, between neighbouring bf16 numbers.
#pragma once

#include <cstdint>

namespace diloco {

// Elements a block of fp8, int8, int4 and e3m0.
inline constexpr int kCodecBlock = 64;

inline constexpr uint8_t kScaleAllZero = 0;
inline constexpr uint8_t kScaleNotFinite = 255;

inline constexpr uint32_t kMagnitudeMask = 0x7FFFFFFF;
inline constexpr uint32_t kSmallestNormalBits = 0x00800000;
inline constexpr uint32_t kInfinityBits = 0x7F800000;
inline constexpr uint32_t kNanBits = 0x7FC00000;
inline constexpr uint32_t kMaxBf16 = 0x7F7F;  // Largest finite.
inline constexpr uint32_t kQuietBf16 = 0x0040;
inline constexpr int kMantissaBits = 23;
// Bits of a random number: RoundingBits.
inline constexpr int kRandomBits = 31;

// Adding this to the bit pattern of a magnitude carries into the exponent if and only if its significand is above
// sqrt(2): 0x3FB504F3 is the largest float32 below sqrt(2).
inline constexpr uint32_t kLogRounding = 0x00800000 - 0x003504F4;
// Largest k of e3m0, and so the distance from its scale's exponent to the one that rounds to zero.
inline constexpr int kE3m0MaxCode = 7;
inline constexpr int kE3m0Sign = 8;

// fp8: largest magnitude of a code, the sign, and where the mantissa ends. A float32 whose exponent is rebased has the
// code as its upper bits.
inline constexpr int kFp8MaxCode = 0x7E;
inline constexpr int kFp8Sign = 0x80;
inline constexpr int kFp8MantissaBits = 3;
inline constexpr int kFp8DroppedBits = kMantissaBits - kFp8MantissaBits;
inline constexpr int kFp8Rebase = (127 - 7) << kFp8MantissaBits;
inline constexpr float kFp8SmallestNormal = 0x1p-6F;
inline constexpr float kFp8Step = 0x1p-9F;  // Between numbers up to there.

struct BlockFormat {
  int code_bits;
  uint32_t amax_rounding;             // To nearest.
  uint32_t stochastic_amax_rounding;  // Up, to what the largest code stands for.
  int scale_shift;
  int min_scale;
  int max_scale;
  int max_code;
};

// 464 = 2^8 * (1 + 0x680000 / 2^23), 448 = 2^8 * (1 + 0x600000 / 2^23). The smallest magnitude, 2^-9 * scale, has
// exponent s - 9 >= 1, and 448 * 2^119 is finite.
inline constexpr BlockFormat kFp8Format = {.code_bits = 8,
                                           .amax_rounding = 0x180000,
                                           .stochastic_amax_rounding = 0x1FFFFF,
                                           .scale_shift = 8,
                                           .min_scale = 10,
                                           .max_scale = 246,
                                           .max_code = kFp8MaxCode};
// 127.5 = 2^6 * (1 + 0x7F0000 / 2^23): a significand from there on needs the next scale; with stochastic rounding one
// above 127 = 2^6 * (1 + 0x7E0000 / 2^23). 127 * 2^121 is finite.
inline constexpr BlockFormat kInt8Format = {.code_bits = 8,
                                            .amax_rounding = 0x010000,
                                            .stochastic_amax_rounding = 0x01FFFF,
                                            .scale_shift = 6,
                                            .min_scale = 1,
                                            .max_scale = 248,
                                            .max_code = 127};
// 7.5 = 2^2 * (1 + 0x700000 / 2^23), 7 = 2^2 * (1 + 0x600000 / 2^23). 7 * 2^125 is finite.
inline constexpr BlockFormat kInt4Format = {.code_bits = 4,
                                            .amax_rounding = 0x100000,
                                            .stochastic_amax_rounding = 0x1FFFFF,
                                            .scale_shift = 2,
                                            .min_scale = 1,
                                            .max_scale = 252,
                                            .max_code = 7};
// The smallest magnitude, 2^-6 * scale, has exponent s - 6 >= 1.
inline constexpr BlockFormat kE3m0Format = {.code_bits = 4,
                                            .amax_rounding = kLogRounding,
                                            .stochastic_amax_rounding = 0x7FFFFF,
                                            .scale_shift = 0,
                                            .min_scale = 7,
                                            .max_scale = 254,
                                            .max_code = kE3m0MaxCode};

// Scale byte of a block whose largest magnitude has this bit pattern (sign bit clear).
constexpr uint8_t ScaleByte(const BlockFormat& format, bool stochastic, uint32_t amax_bits) {
  if (amax_bits < kSmallestNormalBits) {
    return kScaleAllZero;
  }
  if (amax_bits >= kInfinityBits) {
    return kScaleNotFinite;
  }
  const uint32_t rounding = stochastic ? format.stochastic_amax_rounding : format.amax_rounding;
  const int scale = static_cast<int>((amax_bits + rounding) >> kMantissaBits) - format.scale_shift;
  return static_cast<uint8_t>(scale < format.min_scale   ? format.min_scale
                              : scale > format.max_scale ? format.max_scale
                                                         : scale);
}

constexpr bool IsKnownScale(const BlockFormat& format, uint8_t scale) {
  return scale >= format.min_scale && scale <= format.max_scale;
}

// Bit patterns of the scale and of its reciprocal; both are normal for every known scale of fp8, int8 and int4.
constexpr uint32_t ScaleBits(uint8_t scale) { return static_cast<uint32_t>(scale) << kMantissaBits; }
constexpr uint32_t InverseScaleBits(uint8_t scale) { return static_cast<uint32_t>(254 - scale) << kMantissaBits; }

}  // namespace diloco
