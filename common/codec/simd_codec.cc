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
#include "common/codec/simd_kernels-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace diloco::simd {
namespace HWY_NAMESPACE {
namespace {

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

// One whole block: kCodecBlock floats, 1 + CodeBytes(kCodecBlock) bytes. `random` is at its first element.
template <class Kernel, class Randomness>
void EncodeBlock(const float* block, const Randomness& random, uint8_t* out) {
  const FloatTag df;
  const IntTag di;
  const CodeTag dc;
  const uint8_t scale = ScaleByte(Kernel::kFormat, Randomness::kStochastic, MaxMagnitude(block));
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
    hn::StoreU(hn::DemoteTo(dc, Kernel::Encode(bits, scale, random.At(i))), dc, codes + i);
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
template <class Kernel, class Randomness>
void EncodeBlocks(absl::Span<const float> values, Rounding rounding, absl::Span<char> out) {
  constexpr size_t kBlockBytes = 1 + CodeBytes<Kernel::kFormat>(kCodecBlock);
  const size_t whole = values.size() / kCodecBlock;
  const size_t rest = values.size() % kCodecBlock;
  const size_t rest_bytes = rest == 0 ? 0 : 1 + CodeBytes<Kernel::kFormat>(rest);
  DILOCO_CHECK(out.size() == whole * kBlockBytes + rest_bytes);
  uint8_t* const bytes = reinterpret_cast<uint8_t*>(out.data());
  for (size_t i = 0; i < whole; ++i) {
    EncodeBlock<Kernel>(values.data() + i * kCodecBlock, Randomness(rounding.From(i * kCodecBlock)),
                        bytes + i * kBlockBytes);
  }
  if (rest != 0) {
    float block[kCodecBlock] = {};
    uint8_t encoded[kBlockBytes];
    std::copy_n(values.data() + whole * kCodecBlock, rest, block);
    EncodeBlock<Kernel>(block, Randomness(rounding.From(whole * kCodecBlock)), encoded);
    std::copy_n(encoded, rest_bytes, bytes + whole * kBlockBytes);
  }
}

template <class Kernel>
void Encode(absl::Span<const float> values, Rounding rounding, absl::Span<char> out) {
  DILOCO_CHECK(rounding.first_index % kCodecBlock == 0);
  if (rounding.stochastic) {
    EncodeBlocks<Kernel, RandomBits>(values, rounding, out);
  } else {
    EncodeBlocks<Kernel, NoRandomBits>(values, rounding, out);
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
template <class Random>
HWY_INLINE void EncodeHalves(const float* values, Random random, uint8_t* out) {
  const FloatTag df;
  const IntTag di;
  const HalfTag dh;
  const Ints bits = hn::BitCast(di, hn::LoadU(df, values));
  const Ints magnitudes = hn::And(bits, hn::Set(di, kMagnitude));
  const Ints infinity = hn::Set(di, kInfinity);
  const Ints upper = hn::ShiftRight<16>(magnitudes);
  const Ints finite = hn::Min(RoundBits<16>(magnitudes, random), hn::Set(di, static_cast<int32_t>(kMaxBf16)));
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

template <class Randomness>
void EncodeAllHalves(absl::Span<const float> values, Rounding rounding, absl::Span<char> out) {
  DILOCO_CHECK(out.size() == 2 * values.size());
  const size_t lanes = hn::Lanes(FloatTag());
  const size_t whole = values.size() / lanes * lanes;
  const size_t rest = values.size() - whole;
  uint8_t* const bytes = reinterpret_cast<uint8_t*>(out.data());
  for (size_t i = 0; i < whole; i += lanes) {
    EncodeHalves(values.data() + i, Randomness(rounding.From(i)).At(0), bytes + 2 * i);
  }
  if (rest != 0) {
    float last[hn::MaxLanes(FloatTag())] = {};
    uint8_t halves[2 * hn::MaxLanes(FloatTag())];
    std::copy_n(values.data() + whole, rest, last);
    EncodeHalves(last, Randomness(rounding.From(whole)).At(0), halves);
    std::copy_n(halves, 2 * rest, bytes + 2 * whole);
  }
}

void EncodeBf16(absl::Span<const float> values, Rounding rounding, absl::Span<char> out) {
  DILOCO_CHECK(rounding.first_index % kCodecBlock == 0);
  if (rounding.stochastic) {
    EncodeAllHalves<RandomBits>(values, rounding, out);
  } else {
    EncodeAllHalves<NoRandomBits>(values, rounding, out);
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

void EncodeFp8(absl::Span<const float> values, Rounding rounding, absl::Span<char> out) {
  Encode<Float8Kernel>(values, rounding, out);
}
void EncodeInt8(absl::Span<const float> values, Rounding rounding, absl::Span<char> out) {
  Encode<IntegerKernel<kInt8Format>>(values, rounding, out);
}
void EncodeInt4(absl::Span<const float> values, Rounding rounding, absl::Span<char> out) {
  Encode<IntegerKernel<kInt4Format>>(values, rounding, out);
}
void EncodeE3m0(absl::Span<const float> values, Rounding rounding, absl::Span<char> out) {
  Encode<ExponentKernel>(values, rounding, out);
}

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

void EncodeBf16(absl::Span<const float> values, Rounding rounding, absl::Span<char> out) {
  HWY_DYNAMIC_DISPATCH(EncodeBf16)(values, rounding, out);
}
void EncodeFp8(absl::Span<const float> values, Rounding rounding, absl::Span<char> out) {
  HWY_DYNAMIC_DISPATCH(EncodeFp8)(values, rounding, out);
}
void EncodeInt8(absl::Span<const float> values, Rounding rounding, absl::Span<char> out) {
  HWY_DYNAMIC_DISPATCH(EncodeInt8)(values, rounding, out);
}
void EncodeInt4(absl::Span<const float> values, Rounding rounding, absl::Span<char> out) {
  HWY_DYNAMIC_DISPATCH(EncodeInt4)(values, rounding, out);
}
void EncodeE3m0(absl::Span<const float> values, Rounding rounding, absl::Span<char> out) {
  HWY_DYNAMIC_DISPATCH(EncodeE3m0)(values, rounding, out);
}

void DecodeBf16(std::string_view encoded, absl::Span<float> out) { HWY_DYNAMIC_DISPATCH(DecodeBf16)(encoded, out); }
void DecodeFp8(std::string_view encoded, absl::Span<float> out) { HWY_DYNAMIC_DISPATCH(DecodeFp8)(encoded, out); }
void DecodeInt8(std::string_view encoded, absl::Span<float> out) { HWY_DYNAMIC_DISPATCH(DecodeInt8)(encoded, out); }
void DecodeInt4(std::string_view encoded, absl::Span<float> out) { HWY_DYNAMIC_DISPATCH(DecodeInt4)(encoded, out); }
void DecodeE3m0(std::string_view encoded, absl::Span<float> out) { HWY_DYNAMIC_DISPATCH(DecodeE3m0)(encoded, out); }

}  // namespace diloco::simd
#endif  // HWY_ONCE
