#include "common/merge/merge.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <vector>

#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/codec/error_feedback.h"

namespace diloco {
namespace {

// Elements merged at once: whole blocks of every codec, and two such float arrays fit a core's second-level cache.
constexpr uint64_t kPieceElements = 256 * kCodecBlock;

// Weights as the float32 factors that sum to about 1.
absl::StatusOr<std::vector<float>> Factors(absl::Span<const MergeInput> inputs) {
  double total = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!(std::isfinite(inputs[i].weight) && inputs[i].weight > 0)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("input %d has weight %g: weights are positive and finite", i, inputs[i].weight));
    }
    total += inputs[i].weight;
  }
  if (!std::isfinite(total)) {
    return absl::InvalidArgumentError(absl::StrFormat("the weights of %d inputs sum to infinity", inputs.size()));
  }
  std::vector<float> factors;
  for (const MergeInput& input : inputs) {
    factors.push_back(static_cast<float>(input.weight / total));
  }
  return factors;
}

absl::Status CheckSizes(absl::Span<const MergeInput> inputs, uint64_t elements, const Codec& uplink) {
  const uint64_t expected = uplink.encoded_bytes(elements);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].encoded.size() != expected) {
      return absl::InvalidArgumentError(
          absl::StrFormat("input %d has %d bytes of %s values, expected %d for %d elements", i,
                          inputs[i].encoded.size(), uplink.name, expected, elements));
    }
  }
  return absl::OkStatus();
}

// In a fixed order: element i goes to partial sum i % 8, so that additions need not wait for each other.
double SumOfSquares(absl::Span<const float> values) {
  constexpr size_t kPartials = 8;
  double partial[kPartials] = {};
  for (size_t first = 0; first < values.size(); first += kPartials) {
    const size_t count = std::min(kPartials, values.size() - first);
    for (size_t i = 0; i < count; ++i) {
      const double value = values[first + i];
      partial[i] += value * value;
    }
  }
  return std::accumulate(std::begin(partial), std::end(partial), 0.0);
}

// Merges elements [first, first + count) into `published`, their encoded bytes. Returns the sum of the squares of the
// published values: finite if and only if the average is, since codecs keep finite values finite and others not.
double MergePiece(absl::Span<const MergeInput> inputs, absl::Span<const float> factors, const Codec& uplink,
                  const Codec& downlink, const MergeOptions& options, uint64_t first, uint64_t count,
                  absl::Span<char> published) {
  std::vector<float> average(count, 0.0f);
  std::vector<float> decoded(count);
  for (size_t m = 0; m < inputs.size(); ++m) {
    uplink.decode(inputs[m].encoded.substr(uplink.encoded_bytes(first), uplink.encoded_bytes(count)),
                  absl::MakeSpan(decoded));
    for (uint64_t i = 0; i < count; ++i) {
      average[i] += factors[m] * decoded[i];
    }
  }
  const Rounding rounding = options.rounding.From(first);
  if (!options.residual.empty()) {
    EncodeWithFeedback(downlink, rounding, absl::MakeSpan(average), options.residual.subspan(first, count), published);
    return SumOfSquares(average);
  }
  downlink.encode(average, rounding, published);
  downlink.decode(std::string_view(published.data(), published.size()), absl::MakeSpan(decoded));
  return SumOfSquares(decoded);
}

}  // namespace

void SerialFor(int64_t count, const std::function<void(int64_t)>& body) {
  for (int64_t i = 0; i < count; ++i) {
    body(i);
  }
}

absl::StatusOr<MergeResult> Merge(absl::Span<const MergeInput> inputs, uint64_t elements, const Codec& uplink,
                                  const Codec& downlink, const ParallelFor& parallel_for, const MergeOptions& options) {
  DILOCO_CHECK(options.residual.empty() || options.residual.size() == elements);
  DILOCO_RETURN_IF_ERROR(CheckSizes(inputs, elements, uplink));
  DILOCO_ASSIGN_OR_RETURN(const std::vector<float> factors, Factors(inputs));

  MergeResult result;
  result.encoded.resize(downlink.encoded_bytes(elements));
  std::vector<double> sums((elements + kPieceElements - 1) / kPieceElements);
  parallel_for(static_cast<int64_t>(sums.size()), [&](int64_t index) {
    const uint64_t piece = static_cast<uint64_t>(index);
    const uint64_t first = piece * kPieceElements;
    const uint64_t count = std::min(kPieceElements, elements - first);
    const absl::Span<char> published =
        absl::MakeSpan(result.encoded).subspan(downlink.encoded_bytes(first), downlink.encoded_bytes(count));
    sums[piece] = MergePiece(inputs, factors, uplink, downlink, options, first, count, published);
  });

  double sum = 0;
  for (size_t piece = 0; piece < sums.size(); ++piece) {
    if (!std::isfinite(sums[piece])) {
      return absl::InvalidArgumentError(
          absl::StrFormat("the weighted average of %d inputs is not finite, first among the %d elements from %d on",
                          inputs.size(), kPieceElements, piece * kPieceElements));
    }
    sum += sums[piece];
  }
  result.digest = DigestOf(result.encoded);
  result.norm = std::sqrt(sum);
  return result;
}

}  // namespace diloco
