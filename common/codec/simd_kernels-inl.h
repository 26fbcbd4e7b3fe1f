// The element rules of codec_format.h on a vector, for one instruction set: included by simd_codec.cc once for each.
#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/codec/codec_format.h"
#include "common/codec/rounding.h"
#include "hwy/highway.h"

// Compiles whenever the target is another one than last time.
#if defined(DILOCO_COMMON_CODEC_SIMD_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DILOCO_COMMON_CODEC_SIMD_KERNELS_INL_H_
#undef DILOCO_COMMON_CODEC_SIMD_KERNELS_INL_H_
#else
#define DILOCO_COMMON_CODEC_SIMD_KERNELS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace diloco::simd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// At most 16 floats a vector, so that whole vectors make up a block.
using FloatTag = hn::CappedTag<float, 16>;
using IntTag = hn::RebindToSigned<FloatTag>;
using CodeTag = hn::Rebind<int8_t, FloatTag>;
using HalfTag = hn::Rebind<uint16_t, FloatTag>;
using PackedTag = hn::CappedTag<uint8_t, kCodecBlock / 2>;
using Floats = hn::Vec<FloatTag>;
using Ints = hn::Vec<IntTag>;

constexpr int32_t kMagnitude = static_cast<int32_t>(kMagnitudeMask);
constexpr int32_t kInfinity = static_cast<int32_t>(kInfinityBits);
constexpr int32_t kNan = static_cast<int32_t>(kNanBits);
constexpr int32_t kSmallestNormal = static_cast<int32_t>(kSmallestNormalBits);

// ---- Random numbers: RoundingBits, a vector at a time ----

// In their place when rounding to nearest.
struct Nearest {};
class NoRandomBits {
 public:
  static constexpr bool kStochastic = false;
  HWY_INLINE explicit NoRandomBits(Rounding) {}
  HWY_INLINE Nearest At(size_t) const { return {}; }
};

class RandomBits {
 public:
  static constexpr bool kStochastic = true;

  HWY_INLINE explicit RandomBits(Rounding rounding) {
    const uint64_t subkey = RoundingSubkey(rounding.key, rounding.first_index);
    first_ = static_cast<uint32_t>(rounding.first_index) + static_cast<uint32_t>(subkey);
    high_ = static_cast<uint32_t>(subkey >> 32);
  }

  // Of the elements from `i` on, within a block.
  HWY_INLINE Ints At(size_t i) const {
    const UnsignedTag du;
    // Iota(du, first) would go through memory.
    const Unsigned low = hn::Add(hn::Iota(du, 0), hn::Set(du, first_ + static_cast<uint32_t>(i)));
    const Unsigned mixed = Mix(low);
    return hn::BitCast(IntTag(), hn::ShiftRight<1>(Mix(hn::Xor(mixed, hn::Set(du, high_)))));
  }

 private:
  using UnsignedTag = hn::RebindToUnsigned<FloatTag>;
  using Unsigned = hn::Vec<UnsignedTag>;

  HWY_INLINE static Unsigned Mix(Unsigned x) {
    const UnsignedTag du;
    x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(du, kMixFirst));
    x = hn::Mul(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Set(du, kMixSecond));
    return hn::Xor(x, hn::ShiftRight<15>(x));
  }

  uint32_t first_;
  uint32_t high_;
};

// ---- Rounding ----

HWY_INLINE Ints RoundUp(Ints below, Ints thresholds, Ints random) {
  return hn::Sub(below, hn::VecFromMask(IntTag(), hn::Lt(random, thresholds)));
}

// `steps` >= 0, below 2^31, rounded to integers.
HWY_INLINE Ints RoundSteps(Floats steps, Nearest) { return hn::NearestInt(steps); }
HWY_INLINE Ints RoundSteps(Floats steps, Ints random) {
  const FloatTag df;
  const IntTag di;
  const Ints below = hn::ConvertTo(di, steps);
  const Floats fractions = hn::Sub(steps, hn::ConvertTo(df, below));
  const Floats thresholds = hn::Mul(fractions, hn::Set(df, static_cast<float>(1u << kRandomBits)));
  return RoundUp(below, hn::ConvertTo(di, thresholds), random);
}

// Drops the lowest bits of bit patterns without sign.
template <int kDropped>
HWY_INLINE Ints RoundBits(Ints bits, Nearest) {
  const IntTag di;
  const Ints odd = hn::And(hn::ShiftRight<kDropped>(bits), hn::Set(di, 1));
  const Ints half = hn::Add(odd, hn::Set(di, (1 << (kDropped - 1)) - 1));
  return hn::ShiftRight<kDropped>(hn::Add(bits, half));
}
template <int kDropped>
HWY_INLINE Ints RoundBits(Ints bits, Ints random) {
  const Ints rest = hn::And(bits, hn::Set(IntTag(), (1 << kDropped) - 1));
  return RoundUp(hn::ShiftRight<kDropped>(bits), hn::ShiftLeft<kRandomBits - kDropped>(rest), random);
}

// ---- Codecs: Encode gives codes, Decode takes codes as stored, each in an int32 ----

// Magnitudes in units of the scale; denormals count as zero.
HWY_INLINE Floats Scaled(Ints bits, uint8_t scale) {
  const FloatTag df;
  const IntTag di;
  const Ints magnitudes = hn::And(bits, hn::Set(di, kMagnitude));
  const auto is_denormal = hn::Lt(magnitudes, hn::Set(di, kSmallestNormal));
  const Floats normal = hn::BitCast(df, hn::IfThenZeroElse(is_denormal, magnitudes));
  return hn::Mul(normal, hn::Set(df, std::bit_cast<float>(InverseScaleBits(scale))));
}

template <const BlockFormat& kBlockFormat>
struct IntegerKernel {
  static constexpr const BlockFormat& kFormat = kBlockFormat;

  template <class Random>
  HWY_INLINE static Ints Encode(Ints bits, uint8_t scale, Random random) {
    const IntTag di;
    const Ints codes = hn::Min(RoundSteps(Scaled(bits, scale), random), hn::Set(di, kFormat.max_code));
    const Ints negative = hn::BroadcastSignBit(bits);
    return hn::Sub(hn::Xor(codes, negative), negative);
  }

  HWY_INLINE static Ints Decode(Ints codes, uint8_t scale) {
    const FloatTag df;
    const IntTag di;
    if constexpr (kFormat.code_bits == 4) {
      const Ints sign_bit = hn::Set(di, 8);
      codes = hn::Sub(hn::Xor(codes, sign_bit), sign_bit);
    }
    const Floats values = hn::Mul(hn::ConvertTo(df, codes), hn::Set(df, std::bit_cast<float>(ScaleBits(scale))));
    const auto is_unknown = hn::Lt(codes, hn::Set(di, -kFormat.max_code));
    return hn::IfThenElse(is_unknown, hn::Set(di, kNan), hn::BitCast(di, values));
  }
};

struct Float8Kernel {
  static constexpr const BlockFormat& kFormat = kFp8Format;

  template <class Random>
  HWY_INLINE static Ints Encode(Ints bits, uint8_t scale, Random random) {
    const FloatTag df;
    const IntTag di;
    const Floats numbers = Scaled(bits, scale);
    const Ints small = RoundSteps(hn::Mul(numbers, hn::Set(df, 1 / kFp8Step)), random);
    const Ints normal = hn::Sub(RoundBits<kFp8DroppedBits>(hn::BitCast(di, numbers), random), hn::Set(di, kFp8Rebase));
    const auto is_small = hn::RebindMask(di, hn::Lt(numbers, hn::Set(df, kFp8SmallestNormal)));
    const Ints codes = hn::Min(hn::IfThenElse(is_small, small, normal), hn::Set(di, kFp8MaxCode));
    // As a signed byte, which the code is stored through.
    const Ints sign = hn::And(hn::BroadcastSignBit(bits), hn::Set(di, -kFp8Sign));
    return hn::IfThenZeroElse(hn::Eq(codes, hn::Zero(di)), hn::Or(codes, sign));
  }

  HWY_INLINE static Ints Decode(Ints codes, uint8_t scale) {
    const FloatTag df;
    const IntTag di;
    const Ints magnitudes = hn::And(codes, hn::Set(di, kFp8Sign - 1));
    const Floats small = hn::Mul(hn::ConvertTo(df, magnitudes), hn::Set(df, kFp8Step));
    const Ints normal = hn::ShiftLeft<kFp8DroppedBits>(hn::Add(magnitudes, hn::Set(di, kFp8Rebase)));
    const auto is_small = hn::RebindMask(df, hn::Lt(magnitudes, hn::Set(di, 1 << kFp8MantissaBits)));
    const Floats numbers = hn::IfThenElse(is_small, small, hn::BitCast(df, normal));
    const Ints values = hn::BitCast(di, hn::Mul(numbers, hn::Set(df, std::bit_cast<float>(ScaleBits(scale)))));
    const Ints sign = hn::ShiftLeft<24>(hn::And(codes, hn::Set(di, kFp8Sign)));
    const auto is_unknown = hn::Or(hn::Gt(magnitudes, hn::Set(di, kFp8MaxCode)), hn::Eq(codes, hn::Set(di, -kFp8Sign)));
    return hn::IfThenElse(is_unknown, hn::Set(di, kNan), hn::Or(values, sign));
  }
};

struct ExponentKernel {
  static constexpr const BlockFormat& kFormat = kE3m0Format;

  template <class Random>
  HWY_INLINE static Ints Encode(Ints bits, uint8_t scale, Random random) {
    const IntTag di;
    const Ints zero = hn::Zero(di);
    const Ints magnitudes = hn::And(bits, hn::Set(di, kMagnitude));
    const Ints k = hn::Min(Codes(magnitudes, scale, random), hn::Set(di, kE3m0MaxCode));
    const Ints sign = hn::And(hn::BroadcastSignBit(bits), hn::Set(di, kE3m0Sign));
    const auto is_zero = hn::Or(hn::Lt(magnitudes, hn::Set(di, kSmallestNormal)), hn::Eq(k, zero));
    return hn::IfThenZeroElse(is_zero, hn::Or(k, sign));
  }

  HWY_INLINE static Ints Decode(Ints codes, uint8_t scale) {
    const IntTag di;
    const Ints sign_bit = hn::Set(di, kE3m0Sign);
    const Ints k = hn::And(codes, hn::Set(di, kE3m0MaxCode));
    const Ints magnitudes = hn::ShiftLeft<kMantissaBits>(hn::Add(k, hn::Set(di, scale - kE3m0MaxCode)));
    const Ints values = hn::Or(magnitudes, hn::ShiftLeft<28>(hn::And(codes, sign_bit)));
    const Ints known = hn::IfThenZeroElse(hn::Eq(codes, hn::Zero(di)), values);
    return hn::IfThenElse(hn::Eq(codes, sign_bit), hn::Set(di, kNan), known);
  }

 private:
  // In log space.
  HWY_INLINE static Ints Codes(Ints magnitudes, uint8_t scale, Nearest) {
    const IntTag di;
    const Ints rounded = hn::Add(magnitudes, hn::Set(di, static_cast<int32_t>(kLogRounding)));
    const Ints codes = hn::Sub(hn::ShiftRight<kMantissaBits>(rounded), hn::Set(di, scale - kE3m0MaxCode));
    return hn::Max(codes, hn::Zero(di));
  }

  // In linear space: between powers of two, or between zero and the smallest of them.
  HWY_INLINE static Ints Codes(Ints magnitudes, uint8_t scale, Ints random) {
    const FloatTag df;
    const IntTag di;
    const int smallest = scale - kE3m0MaxCode + 1;  // Exponent of code 1.
    const Ints normal = hn::Sub(RoundBits<kMantissaBits>(magnitudes, random), hn::Set(di, smallest - 1));
    const Floats steps = hn::Min(Scaled(magnitudes, static_cast<uint8_t>(smallest)), hn::Set(df, 1.0F));
    const auto is_small = hn::Lt(magnitudes, hn::Set(di, smallest << kMantissaBits));
    return hn::IfThenElse(is_small, RoundSteps(steps, random), normal);
  }
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace diloco::simd
HWY_AFTER_NAMESPACE();

#endif  // DILOCO_COMMON_CODEC_SIMD_KERNELS_INL_H_
