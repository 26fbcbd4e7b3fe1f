#include "common/codec/simd_codec.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/base/check.h"
#include "common/codec/codec_format.h"

// This file compiles once for each instruction set, and what follows until HWY_ONCE with it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/simd_codec.cc"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h.
#include "hwy/highway.h"

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

// A codec's element rules on a vector: Encode gives codes, Decode takes codes as stored, each in an int32.
template <const BlockFormat& kBlockFormat>
struct IntegerKernel {
  static constexpr const BlockFormat& kFormat = kBlockFormat;

  HWY_INLINE static Ints Encode(Ints bits, uint8_t scale) {
    const FloatTag df;
    const IntTag di;
    const auto is_denormal = hn::Lt(hn::And(bits, hn::Set(di, kMagnitude)), hn::Set(di, kSmallestNormal));
    const Floats values = hn::BitCast(df, hn::IfThenZeroElse(is_denormal, bits));
    const Floats inverse_scale = hn::Set(df, std::bit_cast<float>(InverseScaleBits(scale)));
    const Ints codes = hn::NearestInt(hn::Mul(values, inverse_scale));
    return hn::Max(hn::Min(codes, hn::Set(di, kFormat.max_code)), hn::Set(di, -kFormat.max_code));
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

  HWY_INLINE static Ints Encode(Ints bits, uint8_t scale) {
    const FloatTag df;
    const IntTag di;
    const Ints magnitudes = hn::And(bits, hn::Set(di, kMagnitude));
    const auto is_denormal = hn::Lt(magnitudes, hn::Set(di, kSmallestNormal));
    const Floats inverse_scale = hn::Set(df, std::bit_cast<float>(InverseScaleBits(scale)));
    const Floats numbers = hn::Mul(hn::BitCast(df, hn::IfThenZeroElse(is_denormal, magnitudes)), inverse_scale);
    const Ints small = hn::NearestInt(hn::Mul(numbers, hn::Set(df, 1 / kFp8Step)));
    const Ints number_bits = hn::BitCast(di, numbers);
    const Ints odd = hn::And(hn::ShiftRight<kFp8DroppedBits>(number_bits), hn::Set(di, 1));
    const Ints half = hn::Add(odd, hn::Set(di, (1 << (kFp8DroppedBits - 1)) - 1));
    const Ints normal = hn::Sub(hn::ShiftRight<kFp8DroppedBits>(hn::Add(number_bits, half)), hn::Set(di, kFp8Rebase));
    const auto is_small = hn::RebindMask(di, hn::Lt(numbers, hn::Set(df, kFp8SmallestNormal)));
    const Ints codes = hn::Min(hn::IfThenElse(is_small, small, normal), hn::Set(di, kFp8MaxCode));
    // As a signed byte, which the code is stored through.
    const Ints sign = hn::And(hn::ShiftRight<24>(bits), hn::Set(di, -kFp8Sign));
    return hn::IfThenZeroElse(hn::Eq(codes, hn::Zero(di)), hn::Or(codes, sign));
  }

  HWY_INLINE static Ints Decode(Ints codes, uint8_t scale) {
    const FloatTag df;
    const IntTag di;
    const Ints magnitudes = hn::And(codes, hn::Set(di, 0x7F));
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

  HWY_INLINE static Ints Encode(Ints bits, uint8_t scale) {
    const IntTag di;
    const Ints zero = hn::Zero(di);
    const Ints magnitudes = hn::And(bits, hn::Set(di, kMagnitude));
    const Ints exponents =
        hn::ShiftRight<kMantissaBits>(hn::Add(magnitudes, hn::Set(di, static_cast<int32_t>(kLogRounding))));
    const Ints offsets = hn::Sub(exponents, hn::Set(di, scale - kE3m0MaxCode));
    const Ints k = hn::Max(hn::Min(offsets, hn::Set(di, kE3m0MaxCode)), zero);
    const Ints sign = hn::And(hn::ShiftRight<28>(bits), hn::Set(di, kE3m0Sign));
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
};

// Bit pattern of the largest magnitude of a block. As integers, magnitudes order like the floats, NaN above all.
uint32_t MaxMagnitude(const float* block) {
  const FloatTag df;
  const IntTag di;
  Ints largest = hn::Zero(di);
  for (size_t i = 0; i < kCodecBlock; i += hn::Lanes(df)) {
    const Ints bits = hn::BitCast(di, hn::LoadU(df, block + i));
    largest = hn::Max(largest, hn::And(bits, hn::Set(di, kMagnitude)));
  }
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
}

// Two codes a byte, the first in the low half; `codes` has kCodecBlock bytes, of which the low four bits count.
void Pack(const uint8_t* codes, uint8_t* packed) {
  const PackedTag d;
  for (size_t i = 0; i < kCodecBlock / 2; i += hn::Lanes(d)) {
    hn::Vec<PackedTag> low;
    hn::Vec<PackedTag> high;
    hn::LoadInterleaved2(d, codes + 2 * i, low, high);
    hn::StoreU(hn::Or(hn::And(low, hn::Set(d, 15)), hn::ShiftLeft<4>(high)), d, packed + i);
  }
}

void Unpack(const uint8_t* packed, uint8_t* codes) {
  const PackedTag d;
  for (size_t i = 0; i < kCodecBlock / 2; i += hn::Lanes(d)) {
    const auto both = hn::LoadU(d, packed + i);
    hn::StoreInterleaved2(hn::And(both, hn::Set(d, 15)), hn::ShiftRight<4>(both), d, codes + 2 * i);
  }
}

template <const BlockFormat& kFormat>
constexpr size_t CodeBytes(size_t elements) {
  return (elements * static_cast<size_t>(kFormat.code_bits) + 7) / 8;
}

// One whole block: kCodecBlock floats, 1 + CodeBytes(kCodecBlock) bytes.
template <class Kernel>
void EncodeBlock(const float* block, uint8_t* out) {
  const FloatTag df;
  const IntTag di;
  const CodeTag dc;
  const uint8_t scale = ScaleByte(Kernel::kFormat, MaxMagnitude(block));
  *out++ = scale;
  if (!IsKnownScale(Kernel::kFormat, scale)) {
    std::memset(out, 0, CodeBytes<Kernel::kFormat>(kCodecBlock));
    return;
  }
  constexpr bool kPacked = Kernel::kFormat.code_bits == 4;
  uint8_t unpacked[kCodecBlock];
  int8_t* const codes = reinterpret_cast<int8_t*>(kPacked ? unpacked : out);
  for (size_t i = 0; i < kCodecBlock; i += hn::Lanes(df)) {
    const Ints bits = hn::BitCast(di, hn::LoadU(df, block + i));
    hn::StoreU(hn::DemoteTo(dc, Kernel::Encode(bits, scale)), dc, codes + i);
  }
  if constexpr (kPacked) {
    Pack(unpacked, out);
  }
}

template <class Kernel>
void DecodeBlock(const uint8_t* encoded, float* block) {
  const FloatTag df;
  const IntTag di;
  const CodeTag dc;
  const uint8_t scale = *encoded++;
  if (!IsKnownScale(Kernel::kFormat, scale)) {
    std::fill_n(block, kCodecBlock, scale == kScaleAllZero ? 0.0f : std::bit_cast<float>(kNanBits));
    return;
  }
  constexpr bool kPacked = Kernel::kFormat.code_bits == 4;
  uint8_t unpacked[kCodecBlock];
  if constexpr (kPacked) {
    Unpack(encoded, unpacked);
  }
  const int8_t* const codes = reinterpret_cast<const int8_t*>(kPacked ? unpacked : encoded);
  for (size_t i = 0; i < kCodecBlock; i += hn::Lanes(df)) {
    const Ints values = Kernel::Decode(hn::PromoteTo(di, hn::LoadU(dc, codes + i)), scale);
    hn::StoreU(hn::BitCast(df, values), df, block + i);
  }
}

// A short last block is encoded and decoded as a whole one that zeros fill up, in buffers of its own.
template <class Kernel>
void Encode(absl::Span<const float> values, absl::Span<char> out) {
  constexpr size_t kBlockBytes = 1 + CodeBytes<Kernel::kFormat>(kCodecBlock);
  const size_t whole = values.size() / kCodecBlock;
  const size_t rest = values.size() % kCodecBlock;
  const size_t rest_bytes = rest == 0 ? 0 : 1 + CodeBytes<Kernel::kFormat>(rest);
  DILOCO_CHECK(out.size() == whole * kBlockBytes + rest_bytes);
  uint8_t* const bytes = reinterpret_cast<uint8_t*>(out.data());
  for (size_t i = 0; i < whole; ++i) {
    EncodeBlock<Kernel>(values.data() + i * kCodecBlock, bytes + i * kBlockBytes);
  }
  if (rest != 0) {
    float block[kCodecBlock] = {};
    uint8_t encoded[kBlockBytes];
    std::copy_n(values.data() + whole * kCodecBlock, rest, block);
    EncodeBlock<Kernel>(block, encoded);
    std::copy_n(encoded, rest_bytes, bytes + whole * kBlockBytes);
  }
}

template <class Kernel>
void Decode(std::string_view encoded, absl::Span<float> out) {
  constexpr size_t kBlockBytes = 1 + CodeBytes<Kernel::kFormat>(kCodecBlock);
  const size_t whole = out.size() / kCodecBlock;
  const size_t rest = out.size() % kCodecBlock;
  const size_t rest_bytes = rest == 0 ? 0 : 1 + CodeBytes<Kernel::kFormat>(rest);
  DILOCO_CHECK(encoded.size() == whole * kBlockBytes + rest_bytes);
  const uint8_t* const bytes = reinterpret_cast<const uint8_t*>(encoded.data());
  for (size_t i = 0; i < whole; ++i) {
    DecodeBlock<Kernel>(bytes + i * kBlockBytes, out.data() + i * kCodecBlock);
  }
  if (rest != 0) {
    uint8_t last[kBlockBytes] = {};
    float block[kCodecBlock];
    std::copy_n(bytes + whole * kBlockBytes, rest_bytes, last);
    DecodeBlock<Kernel>(last, block);
    std::copy_n(block, rest, out.data() + whole * kCodecBlock);
  }
}

// One vector of floats to halves.
HWY_INLINE void EncodeHalves(const float* values, uint8_t* out) {
  const FloatTag df;
  const IntTag di;
  const HalfTag dh;
  const Ints bits = hn::BitCast(di, hn::LoadU(df, values));
  const Ints magnitudes = hn::And(bits, hn::Set(di, kMagnitude));
  const Ints infinity = hn::Set(di, kInfinity);
  const Ints upper = hn::ShiftRight<16>(magnitudes);
  const Ints odd = hn::And(upper, hn::Set(di, 1));
  const Ints rounded = hn::ShiftRight<16>(hn::Add(magnitudes, hn::Add(odd, hn::Set(di, 0x7FFF))));
  const Ints finite = hn::Min(rounded, hn::Set(di, static_cast<int32_t>(kMaxBf16)));
  const Ints nan = hn::Or(upper, hn::Set(di, static_cast<int32_t>(kQuietBf16)));
  const Ints not_finite = hn::IfThenElse(hn::Gt(magnitudes, infinity), nan, upper);
  const Ints halves = hn::IfThenElse(hn::Lt(magnitudes, infinity), finite, not_finite);
  const Ints sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(di, 0x8000));
  uint16_t buffer[hn::MaxLanes(dh)];  // `out` need not be aligned for it.
  hn::StoreU(hn::DemoteTo(dh, hn::Or(halves, sign)), dh, buffer);
  std::memcpy(out, buffer, hn::Lanes(dh) * sizeof(uint16_t));
}

HWY_INLINE void DecodeHalves(const uint8_t* encoded, float* out) {
  const FloatTag df;
  const IntTag di;
  const HalfTag dh;
  uint16_t buffer[hn::MaxLanes(dh)];  // `encoded` need not be aligned for it.
  std::memcpy(buffer, encoded, hn::Lanes(dh) * sizeof(uint16_t));
  const Ints halves = hn::PromoteTo(di, hn::LoadU(dh, buffer));
  hn::StoreU(hn::BitCast(df, hn::ShiftLeft<16>(halves)), df, out);
}

void EncodeBf16(absl::Span<const float> values, absl::Span<char> out) {
  DILOCO_CHECK(out.size() == 2 * values.size());
  const size_t lanes = hn::Lanes(FloatTag());
  const size_t whole = values.size() / lanes * lanes;
  const size_t rest = values.size() - whole;
  uint8_t* const bytes = reinterpret_cast<uint8_t*>(out.data());
  for (size_t i = 0; i < whole; i += lanes) {
    EncodeHalves(values.data() + i, bytes + 2 * i);
  }
  if (rest != 0) {
    float last[hn::MaxLanes(FloatTag())] = {};
    uint8_t halves[2 * hn::MaxLanes(FloatTag())];
    std::copy_n(values.data() + whole, rest, last);
    EncodeHalves(last, halves);
    std::copy_n(halves, 2 * rest, bytes + 2 * whole);
  }
}

void DecodeBf16(std::string_view encoded, absl::Span<float> out) {
  DILOCO_CHECK(encoded.size() == 2 * out.size());
  const size_t lanes = hn::Lanes(FloatTag());
  const size_t whole = out.size() / lanes * lanes;
  const size_t rest = out.size() - whole;
  const uint8_t* const bytes = reinterpret_cast<const uint8_t*>(encoded.data());
  for (size_t i = 0; i < whole; i += lanes) {
    DecodeHalves(bytes + 2 * i, out.data() + i);
  }
  if (rest != 0) {
    uint8_t halves[2 * hn::MaxLanes(FloatTag())] = {};
    float last[hn::MaxLanes(FloatTag())];
    std::copy_n(bytes + 2 * whole, 2 * rest, halves);
    DecodeHalves(halves, last);
    std::copy_n(last, rest, out.data() + whole);
  }
}

void EncodeFp8(absl::Span<const float> values, absl::Span<char> out) { Encode<Float8Kernel>(values, out); }
void EncodeInt8(absl::Span<const float> values, absl::Span<char> out) {
  Encode<IntegerKernel<kInt8Format>>(values, out);
}
void EncodeInt4(absl::Span<const float> values, absl::Span<char> out) {
  Encode<IntegerKernel<kInt4Format>>(values, out);
}
void EncodeE3m0(absl::Span<const float> values, absl::Span<char> out) { Encode<ExponentKernel>(values, out); }

void DecodeFp8(std::string_view encoded, absl::Span<float> out) { Decode<Float8Kernel>(encoded, out); }
void DecodeInt8(std::string_view encoded, absl::Span<float> out) { Decode<IntegerKernel<kInt8Format>>(encoded, out); }
void DecodeInt4(std::string_view encoded, absl::Span<float> out) { Decode<IntegerKernel<kInt4Format>>(encoded, out); }
void DecodeE3m0(std::string_view encoded, absl::Span<float> out) { Decode<ExponentKernel>(encoded, out); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace diloco::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace diloco::simd {

HWY_EXPORT(EncodeBf16);
HWY_EXPORT(EncodeFp8);
HWY_EXPORT(EncodeInt8);
HWY_EXPORT(EncodeInt4);
HWY_EXPORT(EncodeE3m0);
HWY_EXPORT(DecodeBf16);
HWY_EXPORT(DecodeFp8);
HWY_EXPORT(DecodeInt8);
HWY_EXPORT(DecodeInt4);
HWY_EXPORT(DecodeE3m0);

void EncodeBf16(absl::Span<const float> values, absl::Span<char> out) { HWY_DYNAMIC_DISPATCH(EncodeBf16)(values, out); }
void EncodeFp8(absl::Span<const float> values, absl::Span<char> out) { HWY_DYNAMIC_DISPATCH(EncodeFp8)(values, out); }
void EncodeInt8(absl::Span<const float> values, absl::Span<char> out) { HWY_DYNAMIC_DISPATCH(EncodeInt8)(values, out); }
void EncodeInt4(absl::Span<const float> values, absl::Span<char> out) { HWY_DYNAMIC_DISPATCH(EncodeInt4)(values, out); }
void EncodeE3m0(absl::Span<const float> values, absl::Span<char> out) { HWY_DYNAMIC_DISPATCH(EncodeE3m0)(values, out); }

void DecodeBf16(std::string_view encoded, absl::Span<float> out) { HWY_DYNAMIC_DISPATCH(DecodeBf16)(encoded, out); }
void DecodeFp8(std::string_view encoded, absl::Span<float> out) { HWY_DYNAMIC_DISPATCH(DecodeFp8)(encoded, out); }
void DecodeInt8(std::string_view encoded, absl::Span<float> out) { HWY_DYNAMIC_DISPATCH(DecodeInt8)(encoded, out); }
void DecodeInt4(std::string_view encoded, absl::Span<float> out) { HWY_DYNAMIC_DISPATCH(DecodeInt4)(encoded, out); }
void DecodeE3m0(std::string_view encoded, absl::Span<float> out) { HWY_DYNAMIC_DISPATCH(DecodeE3m0)(encoded, out); }

}  // namespace diloco::simd
#endif  // HWY_ONCE
