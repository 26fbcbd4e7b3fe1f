#include "common/outer/consensus.h"

#include <utility>

#include "absl/container/inlined_vector.h"

#include "common/base/check.h"

namespace diloco {

Consensus::Consensus(const OuterOptimizer* optimizer, std::vector<float> parameters, std::vector<ElementRange> decayed)
    : Consensus(optimizer, 0, std::move(parameters), {}, std::move(decayed)) {
  state_.assign(static_cast<size_t>(optimizer_->state_arrays), std::vector<float>(parameters_.size(), 0.0f));
}

Consensus::Consensus(const OuterOptimizer* optimizer, int64_t version, std::vector<float> parameters,
                     std::vector<std::vector<float>> state, std::vector<ElementRange> decayed)
    : optimizer_(optimizer),
      version_(version),
      parameters_(std::move(parameters)),
      state_(std::move(state)),
      decayed_(std::move(decayed)) {
  for (const std::vector<float>& array : state_) DILOCO_CHECK(array.size() == parameters_.size());
  for (const ElementRange& range : decayed_) {
    DILOCO_CHECK(range.offset >= 0 && range.count >= 0 &&
                 static_cast<size_t>(range.offset + range.count) <= parameters_.size());
  }
}

void Consensus::Apply(const StepScalars& scalars, absl::Span<const float> average) {
  DILOCO_CHECK(average.size() == parameters_.size());
  DILOCO_CHECK(state_.size() == static_cast<size_t>(optimizer_->state_arrays));
  if (scalars.decay != 0) {
    const float kept = 1 - scalars.decay;
    for (const ElementRange& range : decayed_) {
      float* const decayed = parameters_.data() + range.offset;
      for (int64_t i = 0; i < range.count; ++i) decayed[i] = kept * decayed[i];
    }
  }
  absl::InlinedVector<absl::Span<float>, 2> state;
  for (std::vector<float>& array : state_) state.push_back(absl::MakeSpan(array));
  optimizer_->step(scalars, average, absl::MakeSpan(parameters_), state);
  ++version_;
}

Digest Consensus::ComputeDigest() const {
  DigestBuilder builder;
  builder.Add(absl::MakeConstSpan(parameters_));
  for (const std::vector<float>& array : state_) builder.Add(absl::MakeConstSpan(array));
  return builder.Finish();
}

}  // namespace diloco
