#include "common/codec/reference_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "common/base/check.h"
#include "common/codec/codec_format.h"

namespace diloco::reference {
namespace {

// Codes are held in an int: [-max_code, max_code] for int8 and int4, the bits themselves for fp8 and e3m0.
using EncodeElement = int (*)(float value, uint8_t scale);
using DecodeElement = float (*)(int code, uint8_t scale);

uint32_t MagnitudeBits(float value) { return std::bit_cast<uint32_t>(value) & kMagnitudeMask; }

template <const BlockFormat& kFormat>
int EncodeInteger(float value, uint8_t scale) {
  if (MagnitudeBits(value) < kSmallestNormalBits) {
    return 0;
  }
  const float scaled = value * std::bit_cast<float>(InverseScaleBits(scale));
  return std::clamp(static_cast<int>(std::nearbyint(scaled)), -kFormat.max_code, kFormat.max_code);
}

template <const BlockFormat& kFormat>
float DecodeInteger(int code, uint8_t scale) {
  if (code < -kFormat.max_code) {
    return std::bit_cast<float>(kNanBits);
  }
  return static_cast<float>(code) * std::bit_cast<float>(ScaleBits(scale));
}

int EncodeFloat8(float value, uint8_t scale) {
  const uint32_t magnitude = MagnitudeBits(value);
  if (magnitude < kSmallestNormalBits) {
    return 0;
  }
  const float number = std::bit_cast<float>(magnitude) * std::bit_cast<float>(InverseScaleBits(scale));
  int code = 0;
  if (number < kFp8SmallestNormal) {
    code = static_cast<int>(std::nearbyint(number / kFp8Step));
  } else {
    const uint32_t bits = std::bit_cast<uint32_t>(number);
    const uint32_t half = (1u << (kFp8DroppedBits - 1)) - 1 + (bits >> kFp8DroppedBits & 1);
    code = std::min(static_cast<int>((bits + half) >> kFp8DroppedBits) - kFp8Rebase, kFp8MaxCode);
  }
  return code > 0 && std::signbit(value) ? code | kFp8Sign : code;
}

float DecodeFloat8(int code, uint8_t scale) {
  const int magnitude = code & 0x7F;
  if (magnitude > kFp8MaxCode || (code & 0xFF) == kFp8Sign) {
    return std::bit_cast<float>(kNanBits);
  }
  const float number = magnitude >> kFp8MantissaBits == 0
                           ? static_cast<float>(magnitude) * kFp8Step
                           : std::bit_cast<float>(static_cast<uint32_t>(magnitude + kFp8Rebase) << kFp8DroppedBits);
  const float value = number * std::bit_cast<float>(ScaleBits(scale));
  return (code & kFp8Sign) != 0 ? -value : value;
}

int EncodeExponent(float value, uint8_t scale) {
  const uint32_t magnitude = MagnitudeBits(value);
  if (magnitude < kSmallestNormalBits) {
    return 0;
  }
  const int exponent = static_cast<int>((magnitude + kLogRounding) >> kMantissaBits);
  const int k = std::clamp(exponent - scale + kE3m0MaxCode, 0, kE3m0MaxCode);
  return k > 0 && std::signbit(value) ? k | kE3m0Sign : k;
}

float DecodeExponent(int code, uint8_t scale) {
  if (code == 0) {
    return 0.0f;
  }
  if (code == kE3m0Sign) {
    return std::bit_cast<float>(kNanBits);
  }
  const int k = code & kE3m0MaxCode;
  const float magnitude = std::bit_cast<float>(static_cast<uint32_t>(scale + k - kE3m0MaxCode) << kMantissaBits);
  return (code & kE3m0Sign) != 0 ? -magnitude : magnitude;
}

size_t EncodedBytes(const BlockFormat& format, size_t elements) {
  const size_t blocks = (elements + kCodecBlock - 1) / kCodecBlock;
  return blocks + (elements * static_cast<size_t>(format.code_bits) + 7) / 8;
}

template <const BlockFormat& kFormat>
void Encode(absl::Span<const float> values, absl::Span<char> out, EncodeElement encode_element) {
  DILOCO_CHECK(out.size() == EncodedBytes(kFormat, values.size()));
  std::fill(out.begin(), out.end(), '\0');
  char* to = out.data();
  for (size_t first = 0; first < values.size(); first += kCodecBlock) {
    const absl::Span<const float> block = values.subspan(first, kCodecBlock);
    uint32_t amax_bits = 0;
    for (const float value : block) {
      amax_bits = std::max(amax_bits, MagnitudeBits(value));
    }
    const uint8_t scale = ScaleByte(kFormat, amax_bits);
    *to++ = static_cast<char>(scale);
    for (size_t i = 0; i < block.size() && IsKnownScale(kFormat, scale); ++i) {
      const int code = encode_element(block[i], scale);
      if (kFormat.code_bits == 8) {
        to[i] = static_cast<char>(code);
      } else {
        to[i / 2] = static_cast<char>(to[i / 2] | (code & 15) << (i % 2 * 4));
      }
    }
    to += EncodedBytes(kFormat, block.size()) - 1;
  }
}

// `sign_bit`: the bit of a four-bit code that two's complement extends, 0 if codes are not signed numbers.
template <const BlockFormat& kFormat>
void Decode(std::string_view encoded, absl::Span<float> out, DecodeElement decode_element, int sign_bit) {
  DILOCO_CHECK(encoded.size() == EncodedBytes(kFormat, out.size()));
  const char* from = encoded.data();
  for (size_t first = 0; first < out.size(); first += kCodecBlock) {
    const absl::Span<float> block = out.subspan(first, kCodecBlock);
    const uint8_t scale = static_cast<uint8_t>(*from++);
    for (size_t i = 0; i < block.size(); ++i) {
      if (scale == kScaleAllZero) {
        block[i] = 0.0f;
      } else if (!IsKnownScale(kFormat, scale)) {
        block[i] = std::bit_cast<float>(kNanBits);
      } else if (kFormat.code_bits == 8) {
        block[i] = decode_element(static_cast<signed char>(from[i]), scale);
      } else {
        const int code = static_cast<unsigned char>(from[i / 2]) >> (i % 2 * 4) & 15;
        block[i] = decode_element((code ^ sign_bit) - sign_bit, scale);
      }
    }
    from += EncodedBytes(kFormat, block.size()) - 1;
  }
}

}  // namespace

void EncodeBf16(absl::Span<const float> values, absl::Span<char> out) {
  DILOCO_CHECK(out.size() == 2 * values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(values[i]);
    const uint32_t magnitude = bits & kMagnitudeMask;
    const uint32_t sign = bits >> 16 & 0x8000;
    uint32_t half = std::min((magnitude + 0x7FFF + (magnitude >> 16 & 1)) >> 16, kMaxBf16);
    if (magnitude == kInfinityBits) {
      half = kInfinityBits >> 16;
    } else if (magnitude > kInfinityBits) {
      half = magnitude >> 16 | kQuietBf16;
    }
    out[2 * i] = static_cast<char>(half & 0xFF);
    out[2 * i + 1] = static_cast<char>((sign | half) >> 8);
  }
}

void DecodeBf16(std::string_view encoded, absl::Span<float> out) {
  DILOCO_CHECK(encoded.size() == 2 * out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const uint32_t low = static_cast<unsigned char>(encoded[2 * i]);
    const uint32_t high = static_cast<unsigned char>(encoded[2 * i + 1]);
    out[i] = std::bit_cast<float>((high << 8 | low) << 16);
  }
}

void EncodeFp8(absl::Span<const float> values, absl::Span<char> out) { Encode<kFp8Format>(values, out, EncodeFloat8); }
void EncodeInt8(absl::Span<const float> values, absl::Span<char> out) {
  Encode<kInt8Format>(values, out, EncodeInteger<kInt8Format>);
}
void EncodeInt4(absl::Span<const float> values, absl::Span<char> out) {
  Encode<kInt4Format>(values, out, EncodeInteger<kInt4Format>);
}
void EncodeE3m0(absl::Span<const float> values, absl::Span<char> out) {
  Encode<kE3m0Format>(values, out, EncodeExponent);
}

void DecodeFp8(std::string_view encoded, absl::Span<float> out) { Decode<kFp8Format>(encoded, out, DecodeFloat8, 0); }
void DecodeInt8(std::string_view encoded, absl::Span<float> out) {
  Decode<kInt8Format>(encoded, out, DecodeInteger<kInt8Format>, 0);
}
void DecodeInt4(std::string_view encoded, absl::Span<float> out) {
  Decode<kInt4Format>(encoded, out, DecodeInteger<kInt4Format>, 8);
}
void DecodeE3m0(std::string_view encoded, absl::Span<float> out) {
  Decode<kE3m0Format>(encoded, out, DecodeExponent, 0);
}

}  // namespace diloco::reference
