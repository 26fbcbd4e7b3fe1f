// The consensus of one fragment: parameters and outer state, a pure function of the published global deltas. The
// coordinator, a joiner and every worker hold the same bits; Digest() checks it.
//
// Not thread-safe; a const object may be read from several threads.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "common/base/digest.h"
#include "common/base/element_range.h"
#include "common/outer/outer_optimizer.h"

namespace diloco {

class Consensus {
 public:
  // Version 0: the seeded parameters, outer state 0. `optimizer` outlives the object. `decayed`: the elements that
  // weight decay is for (Layout::DecayedRanges), within the parameters and apart from each other.
  Consensus(const OuterOptimizer* optimizer, std::vector<float> parameters, std::vector<ElementRange> decayed = {});
  // As restored from a snapshot. `state` has optimizer->state_arrays arrays of the same size as `parameters`.
  Consensus(const OuterOptimizer* optimizer, int64_t version, std::vector<float> parameters,
            std::vector<std::vector<float>> state, std::vector<ElementRange> decayed = {});

  // Takes one outer step with the decoded average; version() grows by one. Weight decay is decoupled: decayed elements
  // are multiplied by 1 - scalars.decay before the optimizer's step. Shapes: average [n].
  void Apply(const StepScalars& scalars, absl::Span<const float> average);

  int64_t version() const { return version_; }
  const OuterOptimizer& optimizer() const { return *optimizer_; }
  absl::Span<const float> parameters() const { return parameters_; }
  absl::Span<const std::vector<float>> state() const { return state_; }
  // Of the parameters, then each state array, as little-endian float32.
  Digest ComputeDigest() const;

 private:
  const OuterOptimizer* optimizer_;
  int64_t version_ = 0;
  std::vector<float> parameters_;
  std::vector<std::vector<float>> state_;
  std::vector<ElementRange> decayed_;
};

}  // namespace diloco
