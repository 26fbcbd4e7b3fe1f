// Codecs: how float32 values travel. One row of function pointers each, never a virtual call an element.
//
// Byte grammar, every field little-endian:
//   fp32    value f32 ...
//   bf16    value u16 ...                     upper half of the float32, round to nearest even
//   fp8     block := scale u8, code u8 * n           sign bit, 4 bits of exponent, 3 bits of mantissa (OCP E4M3)
//   int8    block := scale u8, code i8 * n
//   int4    block := scale u8, two codes a byte * ceil(n / 2), first code in the low half, two's complement
//   e3m0    block := scale u8, two codes a byte * ceil(n / 2), first code in the low half: sign bit, 3 bits of exponent
//   n = kCodecBlock elements, the last block of an array may be shorter. The scale codes a power of two; one code
//   means "all zero" and one means "not finite". codec_format.h states the scales and the rounding.
// A block decodes alone, so a chunk that holds whole blocks is useful as soon as it has arrived.
//
// All functions are pure and thread-safe. The functions in the table (simd_codec.h) give the same bytes as the scalar
// reference (reference_codec.h) on every processor, also with flush-to-zero on.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "common/codec/codec_format.h"
#include "common/codec/rounding.h"

namespace diloco {

struct Codec {
  std::string_view name;

  // Shape of the encoded bytes: a block is `scale_bytes`, then `code_bits` an element, rounded up to whole bytes.
  int block_elements;  // 1 for fp32 and bf16.
  int scale_bytes;
  int code_bits;

  // Encodes values [n] into out [encoded_bytes(n)]. A block (or element) that is not finite gets the "not finite"
  // code, or the NaN or Inf itself for fp32 and bf16. fp32 is exact and rounds nothing.
  void (*encode)(absl::Span<const float> values, Rounding rounding, absl::Span<char> out);

  // Decodes into out [n]; encoded.size() == encoded_bytes(n). Never reads or writes outside; any bytes are accepted:
  // "not finite" and unknown codes decode to NaN.
  void (*decode)(std::string_view encoded, absl::Span<float> out);

  // Encoded bytes of one whole block.
  constexpr int block_bytes() const { return scale_bytes + block_elements * code_bits / 8; }

  // Encoded bytes of `elements` values; linear in whole blocks, 0 for 0.
  constexpr uint64_t encoded_bytes(uint64_t elements) const {
    const uint64_t block = static_cast<uint64_t>(block_elements);
    const uint64_t rest = elements % block;
    return elements / block * static_cast<uint64_t>(block_bytes()) +
           (rest == 0 ? 0 : static_cast<uint64_t>(scale_bytes) + (rest * static_cast<uint64_t>(code_bits) + 7) / 8);
  }
};

// fp32, bf16, fp8, int8, int4, e3m0.
absl::Span<const Codec> Codecs();

// nullptr when there is no such codec.
const Codec* FindCodec(std::string_view name);

// The largest chunk size, <= limit, that holds whole blocks of `codec`. limit >= block_bytes().
uint64_t ChunkBytesFor(const Codec& codec, uint64_t limit);

// Checks an encoded array of `elements` values: size, no "not finite" code, no unknown code, no NaN or Inf, and zero
// where the format has nothing to say (the codes of a block that is all zero, the last half byte of an odd count).
// Errors: kInvalidArgument with what and where (first bad block or element).
absl::Status CheckEncoded(const Codec& codec, std::string_view encoded, uint64_t elements);

}  // namespace diloco
