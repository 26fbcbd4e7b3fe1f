// The codecs once more, written from the prose of codec_format.h alone: slow, in double precision, one rule a line. The
// tests hold both the scalar reference and the SIMD versions against it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/codec/rounding.h"

namespace diloco::testing {

// Encoded bytes of `values` with the codec of that name.
std::string NaiveEncode(std::string_view codec, const std::vector<float>& values, Rounding rounding = kNearest);

// Decoded values; `elements` of them.
std::vector<float> NaiveDecode(std::string_view codec, std::string_view encoded, size_t elements);

// The edge set: what broke codecs elsewhere, each case with a name. Lengths around the block, zeros, constants,
// denormals, huge values, ties, NaN and Inf.
struct EdgeCase {
  std::string name;
  std::vector<float> values;
};
std::vector<EdgeCase> EdgeCases();

// Blocks of random values at many magnitudes; some elements are denormal, zero, NaN or Inf. Same seed, same values.
std::vector<float> RandomValues(size_t elements, unsigned seed);

}  // namespace diloco::testing
