#include "common/codec/reference_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

#include "common/base/check.h"
#include "common/codec/codec_format.h"

namespace diloco::reference {
namespace {

// Codes are held in an int: [-max_code, max_code] for int8 and int4, the bits themselves for fp8 and e3m0. `random` is
// absent when rounding to nearest.
using Random = std::optional<uint32_t>;
using EncodeElement = int (*)(float value, uint8_t scale, Random random);
using DecodeElement = float (*)(int code, uint8_t scale);

uint32_t MagnitudeBits(float value) { return std::bit_cast<uint32_t>(value) & kMagnitudeMask; }

// `below`, or the code after it if the random number is under a threshold of kRandomBits bits.
int RoundUp(int below, uint32_t threshold, uint32_t random) { return random < threshold ? below + 1 : below; }

// `steps` >= 0, rounded to an integer.
int RoundSteps(float steps, Random random) {
  if (!random) {
    return static_cast<int>(std::nearbyint(steps));
  }
  const int below = static_cast<int>(steps);
  const float fraction = steps - static_cast<float>(below);
  return RoundUp(below, static_cast<uint32_t>(fraction * static_cast<float>(1u << kRandomBits)), *random);
}

// Drops bits of a bit pattern.
int RoundBits(uint32_t bits, int dropped, Random random) {
  const int below = static_cast<int>(bits >> dropped);
  const uint32_t rest = bits & ((1u << dropped) - 1);
  if (!random) {
    const uint32_t half = 1u << (dropped - 1);
    return rest > half || (rest == half && below % 2 == 1) ? below + 1 : below;
  }
  return RoundUp(below, rest << (kRandomBits - dropped), *random);
}

template <const BlockFormat& kFormat>
int EncodeInteger(float value, uint8_t scale, Random random) {
  const uint32_t magnitude = MagnitudeBits(value);
  if (magnitude < kSmallestNormalBits) {
    return 0;
  }
  const float steps = std::bit_cast<float>(magnitude) * std::bit_cast<float>(InverseScaleBits(scale));
  const int code = std::min(RoundSteps(steps, random), kFormat.max_code);
  return std::signbit(value) ? -code : code;
}

template <const BlockFormat& kFormat>
float DecodeInteger(int code, uint8_t scale) {
  if (code < -kFormat.max_code) {
    return std::bit_cast<float>(kNanBits);
  }
  return static_cast<float>(code) * std::bit_cast<float>(ScaleBits(scale));
}

int EncodeFloat8(float value, uint8_t scale, Random random) {
  const uint32_t magnitude = MagnitudeBits(value);
  if (magnitude < kSmallestNormalBits) {
    return 0;
  }
  const float number = std::bit_cast<float>(magnitude) * std::bit_cast<float>(InverseScaleBits(scale));
  const int code =
      number < kFp8SmallestNormal
          ? RoundSteps(number / kFp8Step, random)
          : std::min(RoundBits(std::bit_cast<uint32_t>(number), kFp8DroppedBits, random) - kFp8Rebase, kFp8MaxCode);
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

int EncodeExponent(float value, uint8_t scale, Random random) {
  const uint32_t magnitude = MagnitudeBits(value);
  if (magnitude < kSmallestNormalBits) {
    return 0;
  }
  const int smallest = scale - kE3m0MaxCode + 1;  // Exponent of code 1.
  int k = 0;
  if (!random) {
    k = std::max(static_cast<int>((magnitude + kLogRounding) >> kMantissaBits) - smallest + 1, 0);
  } else if (static_cast<int>(magnitude >> kMantissaBits) >= smallest) {
    k = RoundBits(magnitude, kMantissaBits, random) - smallest + 1;
  } else {
    const float inverse = std::bit_cast<float>(InverseScaleBits(static_cast<uint8_t>(smallest)));
    k = RoundSteps(std::bit_cast<float>(magnitude) * inverse, random);
  }
  k = std::min(k, kE3m0MaxCode);
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

Random RandomAt(Rounding rounding, size_t i) {
  return rounding.stochastic ? Random(RoundingBits(rounding.key, rounding.first_index + i)) : std::nullopt;
}

size_t EncodedBytes(const BlockFormat& format, size_t elements) {
  const size_t blocks = (elements + kCodecBlock - 1) / kCodecBlock;
  return blocks + (elements * static_cast<size_t>(format.code_bits) + 7) / 8;
}

template <const BlockFormat& kFormat>
void Encode(absl::Span<const float> values, Rounding rounding, absl::Span<char> out, EncodeElement encode_element) {
  DILOCO_CHECK(rounding.first_index % kCodecBlock == 0);
  DILOCO_CHECK(out.size() == EncodedBytes(kFormat, values.size()));
  std::fill(out.begin(), out.end(), '\0');
  char* to = out.data();
  for (size_t first = 0; first < values.size(); first += kCodecBlock) {
    const absl::Span<const float> block = values.subspan(first, kCodecBlock);
    uint32_t amax_bits = 0;
    for (const float value : block) {
      amax_bits = std::max(amax_bits, MagnitudeBits(value));
    }
    const uint8_t scale = ScaleByte(kFormat, rounding.stochastic, amax_bits);
    *to++ = static_cast<char>(scale);
    for (size_t i = 0; i < block.size() && IsKnownScale(kFormat, scale); ++i) {
      const int code = encode_element(block[i], scale, RandomAt(rounding, first + i));
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

void EncodeBf16(absl::Span<const float> values, Rounding rounding, absl::Span<char> out) {
  DILOCO_CHECK(rounding.first_index % kCodecBlock == 0);
  DILOCO_CHECK(out.size() == 2 * values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(values[i]);
    const uint32_t magnitude = bits & kMagnitudeMask;
    const uint32_t sign = bits >> 16 & 0x8000;
    uint32_t half = std::min(static_cast<uint32_t>(RoundBits(magnitude, 16, RandomAt(rounding, i))), kMaxBf16);
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

void EncodeFp8(absl::Span<const float> values, Rounding rounding, absl::Span<char> out) {
  Encode<kFp8Format>(values, rounding, out, EncodeFloat8);
}
void EncodeInt8(absl::Span<const float> values, Rounding rounding, absl::Span<char> out) {
  Encode<kInt8Format>(values, rounding, out, EncodeInteger<kInt8Format>);
}
void EncodeInt4(absl::Span<const float> values, Rounding rounding, absl::Span<char> out) {
  Encode<kInt4Format>(values, rounding, out, EncodeInteger<kInt4Format>);
}
void EncodeE3m0(absl::Span<const float> values, Rounding rounding, absl::Span<char> out) {
  Encode<kE3m0Format>(values, rounding, out, EncodeExponent);
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
