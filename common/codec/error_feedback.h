// Error feedback: what encoding loses is added to the next values before they are encoded. So the sum of what decoders
// got follows the sum of the values, the residual apart, which is what the last encodings still owe.
// Source: Seide et al., 1-bit SGD, Interspeech 2014; Karimireddy et al., arXiv 1901.09847, algorithm 1.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"

#include "common/codec/codec.h"

namespace diloco {

// Encodes values + residual into `out`. Afterwards `values` are what a decoder gets, and `residual` is what they lack;
// 0 where that is not finite. Shapes: values, residual [n]; out [codec.encoded_bytes(n)]. Pure and thread-safe.
void EncodeWithFeedback(const Codec& codec, Rounding rounding, absl::Span<float> values, absl::Span<float> residual,
                        absl::Span<char> out);

// The residual of one sender and fragment. Not thread-safe.
class ErrorFeedback {
 public:
  // To start with; all zero for a new sender. 4 bytes an element.
  explicit ErrorFeedback(std::vector<float> residual) : residual_(std::move(residual)) {}

  // Shapes: values [n], out [codec.encoded_bytes(n)].
  void Encode(const Codec& codec, Rounding rounding, absl::Span<const float> values, absl::Span<char> out);
  // These bytes counted nowhere: the next ones make up for them.
  void GiveBack(const Codec& codec, std::string_view encoded);
  // Forgets what is owed.
  void Clear();

  absl::Span<const float> residual() const { return residual_; }

 private:
  std::vector<float> residual_;
};

}  // namespace diloco
