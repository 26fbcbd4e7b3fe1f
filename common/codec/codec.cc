#include "common/codec/codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/codec/simd_codec.h"

namespace diloco {
namespace {

static_assert(std::endian::native == std::endian::little, "fp32 and bf16 are copied as they lie in memory");

void EncodeFp32(absl::Span<const float> values, Rounding, absl::Span<char> out) {
  DILOCO_CHECK(out.size() == values.size() * sizeof(float));
  std::copy_n(reinterpret_cast<const char*>(values.data()), out.size(), out.data());
}

void DecodeFp32(std::string_view encoded, absl::Span<float> out) {
  DILOCO_CHECK(encoded.size() == out.size() * sizeof(float));
  std::copy_n(encoded.data(), encoded.size(), reinterpret_cast<char*>(out.data()));
}

constexpr Codec kCodecs[] = {
    {.name = "fp32",
     .block_elements = 1,
     .scale_bytes = 0,
     .code_bits = 32,
     .encode = EncodeFp32,
     .decode = DecodeFp32},
    {.name = "bf16",
     .block_elements = 1,
     .scale_bytes = 0,
     .code_bits = 16,
     .encode = simd::EncodeBf16,
     .decode = simd::DecodeBf16},
    {.name = "fp8",
     .block_elements = kCodecBlock,
     .scale_bytes = 1,
     .code_bits = kFp8Format.code_bits,
     .encode = simd::EncodeFp8,
     .decode = simd::DecodeFp8},
    {.name = "int8",
     .block_elements = kCodecBlock,
     .scale_bytes = 1,
     .code_bits = kInt8Format.code_bits,
     .encode = simd::EncodeInt8,
     .decode = simd::DecodeInt8},
    {.name = "int4",
     .block_elements = kCodecBlock,
     .scale_bytes = 1,
     .code_bits = kInt4Format.code_bits,
     .encode = simd::EncodeInt4,
     .decode = simd::DecodeInt4},
    {.name = "e3m0",
     .block_elements = kCodecBlock,
     .scale_bytes = 1,
     .code_bits = kE3m0Format.code_bits,
     .encode = simd::EncodeE3m0,
     .decode = simd::DecodeE3m0},
};

// Decoded at once by CheckEncoded.
constexpr uint64_t kCheckElements = 16 * kCodecBlock;

// Error for element `index`, which decoded to NaN or Inf.
absl::Status NotFinite(const Codec& codec, std::string_view encoded, uint64_t index) {
  if (codec.scale_bytes == 0) {
    return absl::InvalidArgumentError(absl::StrFormat("element %d of %s values is not finite", index, codec.name));
  }
  const uint64_t block = index / static_cast<uint64_t>(codec.block_elements);
  const int scale = static_cast<unsigned char>(encoded[block * static_cast<uint64_t>(codec.block_bytes())]);
  if (scale == kScaleNotFinite) {
    return absl::InvalidArgumentError(absl::StrFormat("block %d of %s values is not finite", block, codec.name));
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "element %d (block %d, scale byte %d) of %s values has an unknown code", index, block, scale, codec.name));
}

// Bytes to which the format gives no meaning are zero: every byte of a block that is all zero, and the upper half of a
// last byte that holds one code of four bits.
absl::Status CheckUnused(const Codec& codec, std::string_view encoded, uint64_t elements) {
  const size_t block_bytes = static_cast<size_t>(codec.block_bytes());
  for (size_t offset = 0; offset < encoded.size(); offset += block_bytes) {
    const std::string_view block = encoded.substr(offset, block_bytes);
    if (static_cast<uint8_t>(block[0]) == kScaleAllZero && block.find_first_not_of('\0') != std::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrFormat("block %d of %s values is all zero, but has codes", offset / block_bytes, codec.name));
    }
  }
  if (codec.code_bits == 4 && elements % 2 == 1 && static_cast<unsigned char>(encoded.back()) >> 4 != 0) {
    return absl::InvalidArgumentError(absl::StrFormat("%s values have a code after the last element", codec.name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Span<const Codec> Codecs() { return kCodecs; }

const Codec* FindCodec(std::string_view name) {
  const Codec* const found =
      std::find_if(std::begin(kCodecs), std::end(kCodecs), [name](const Codec& codec) { return codec.name == name; });
  return found == std::end(kCodecs) ? nullptr : found;
}

uint64_t ChunkBytesFor(const Codec& codec, uint64_t limit) {
  const uint64_t block_bytes = static_cast<uint64_t>(codec.block_bytes());
  DILOCO_CHECK(limit >= block_bytes);
  return limit / block_bytes * block_bytes;
}

absl::Status CheckEncoded(const Codec& codec, std::string_view encoded, uint64_t elements) {
  if (encoded.size() != codec.encoded_bytes(elements)) {
    return absl::InvalidArgumentError(absl::StrFormat("%d bytes of %s values, expected %d for %d elements",
                                                      encoded.size(), codec.name, codec.encoded_bytes(elements),
                                                      elements));
  }
  std::array<float, kCheckElements> values;
  for (uint64_t first = 0; first < elements; first += kCheckElements) {
    const uint64_t count = std::min(kCheckElements, elements - first);
    const absl::Span<float> piece = absl::MakeSpan(values).first(count);
    codec.decode(encoded.substr(codec.encoded_bytes(first), codec.encoded_bytes(count)), piece);
    const auto bad = std::find_if_not(piece.begin(), piece.end(), [](float value) { return std::isfinite(value); });
    if (bad != piece.end()) {
      return NotFinite(codec, encoded, first + static_cast<uint64_t>(bad - piece.begin()));
    }
  }
  return codec.scale_bytes == 0 ? absl::OkStatus() : CheckUnused(codec, encoded, elements);
}

}  // namespace diloco
