// The scalar reference: states the format in code, one element at a time. simd_codec.h gives the same bytes.
// Shapes and behaviour: Codec::encode and Codec::decode. fp32 is a copy and needs no reference.
#pragma once

#include <string_view>

#include "absl/types/span.h"

#include "common/codec/rounding.h"

namespace diloco::reference {

void EncodeBf16(absl::Span<const float> values, Rounding rounding, absl::Span<char> out);
void EncodeFp8(absl::Span<const float> values, Rounding rounding, absl::Span<char> out);
void EncodeInt8(absl::Span<const float> values, Rounding rounding, absl::Span<char> out);
void EncodeInt4(absl::Span<const float> values, Rounding rounding, absl::Span<char> out);
void EncodeE3m0(absl::Span<const float> values, Rounding rounding, absl::Span<char> out);

void DecodeBf16(std::string_view encoded, absl::Span<float> out);
void DecodeFp8(std::string_view encoded, absl::Span<float> out);
void DecodeInt8(std::string_view encoded, absl::Span<float> out);
void DecodeInt4(std::string_view encoded, absl::Span<float> out);
void DecodeE3m0(std::string_view encoded, absl::Span<float> out);

}  // namespace diloco::reference
