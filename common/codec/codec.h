// Codecs: how float32 values travel. One row of function pointers each, never a virtual call an element.
//
// Byte grammar, every field little-endian:
//   fp32    value f32 ...
//   bf16    value u16 ...                     upper half of the float32, round to nearest even
//   int8    block := scale u8, code i8 * n
//   int4    block := scale u8, two codes a byte * ceil(n / 2), first code in the low half, two's complement
//   e3m0    block := scale u8, two codes a byte * ceil(n / 2), first code in the low half: sign bit, 3 bits of exponent
//   n = kCodecBlock elements, the last block of an array may be shorter. The scale codes a power of two; one code
//   means "all zero" and one means "not finite". codec_format.h states the scales and the rounding.
// A block decodes alone, so a chunk that holds whole blocks is useful as soon as it has arrived.
//
// All functions are pure and thread-safe. The dispatched versions give the same bytes as the scalar reference
// (reference_codec.h) on every processor, also with flush-to-zero on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace diloco {

// Elements a block of int8, int4 and e3m0.
inline constexpr int kCodecBlock = 64;

struct Codec {
  std::string_view name;

  // Encoded bytes of `elements` values, >= 0; linear in whole blocks, 0 for 0.
  uint64_t (*encoded_bytes)(uint64_t elements);

  // Elements and encoded bytes of one block (1 element for fp32 and bf16).
  int block_elements;
  int block_bytes;

  // Encodes values [n] into out [encoded_bytes(n)]. A block (or element) that is not finite gets the "not finite"
  // code, or the NaN or Inf itself for fp32 and bf16.
  void (*encode)(absl::Span<const float> values, absl::Span<char> out);

  // Decodes into out [n]; encoded.size() == encoded_bytes(n). Never reads or writes outside; any bytes are accepted:
  // unknown codes decode to a value that CheckFinite refuses.
  void (*decode)(std::string_view encoded, absl::Span<float> out);
};

absl::Span<const Codec> Codecs();

// nullptr when there is no such codec.
const Codec* FindCodec(std::string_view name);

// The largest chunk size, <= limit, that holds whole blocks of `codec`. limit >= block_bytes.
uint64_t ChunkBytesFor(const Codec& codec, uint64_t limit);

// Checks an encoded array of `elements` values: size, no "not finite" code, no unknown code, no NaN or Inf.
// Errors: kInvalidArgument with what and where (first bad block or element).
absl::Status CheckEncoded(const Codec& codec, std::string_view encoded, uint64_t elements);

}  // namespace diloco
