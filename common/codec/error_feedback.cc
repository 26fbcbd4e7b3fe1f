#include "common/codec/error_feedback.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/base/check.h"

namespace diloco {

void EncodeWithFeedback(const Codec& codec, Rounding rounding, absl::Span<float> values, absl::Span<float> residual,
                        absl::Span<char> out) {
  DILOCO_CHECK(residual.size() == values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    residual[i] += values[i];
  }
  codec.encode(residual, rounding, out);
  codec.decode(std::string_view(out.data(), out.size()), values);
  for (size_t i = 0; i < values.size(); ++i) {
    const float lost = residual[i] - values[i];
    residual[i] = std::isfinite(lost) ? lost : 0.0F;
  }
}

void ErrorFeedback::Encode(const Codec& codec, Rounding rounding, absl::Span<const float> values,
                           absl::Span<char> out) {
  std::vector<float> decoded(values.begin(), values.end());
  EncodeWithFeedback(codec, rounding, absl::MakeSpan(decoded), absl::MakeSpan(residual_), out);
}

void ErrorFeedback::GiveBack(const Codec& codec, std::string_view encoded) {
  std::vector<float> decoded(residual_.size());
  codec.decode(encoded, absl::MakeSpan(decoded));
  for (size_t i = 0; i < decoded.size(); ++i) {
    const float owed = residual_[i] + decoded[i];
    residual_[i] = std::isfinite(owed) ? owed : 0.0F;
  }
}

void ErrorFeedback::Clear() { std::fill(residual_.begin(), residual_.end(), 0.0F); }

}  // namespace diloco
