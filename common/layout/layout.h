// The layout of a model: its tensors cut into fragments, and where each lies in the flat float32 parameter vector.
//
// Every machine cuts the same tensors with this code and gets the same layout; the digest proves it. The flat vector is
// fragment-major: fragment 0's tensors first, each tensor row-major. Immutable after construction, so thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/base/digest.h"
#include "common/base/element_range.h"
#include "common/layout/cut_rule.h"
#include "common/layout/tensor_spec.h"

namespace diloco {

// A tensor's place in the flat vector, in elements.
struct TensorPlacement {
  int tensor = 0;  // Index into Layout::tensors().
  int fragment = 0;
  int64_t offset = 0;  // From the start of the flat vector.
  int64_t count = 0;
};

// A fragment's range of the flat vector, in elements. May be empty only if the model is.
struct FragmentRange {
  int64_t offset = 0;
  int64_t count = 0;
};

class Layout {
 public:
  // Cuts `tensors` as `rule` says. O(tensors * log elements).
  // Errors, kInvalidArgument: no tensors or too many, a bad, reserved (`__metadata__`) or repeated name, a negative or
  // overflowing shape, or as AssignFragments.
  static absl::StatusOr<Layout> Cut(std::vector<TensorSpec> tensors, const CutRule& rule);

  absl::Span<const TensorSpec> tensors() const { return tensors_; }
  // By tensor index; ascending in offset within a fragment.
  absl::Span<const TensorPlacement> placements() const { return placements_; }
  absl::Span<const FragmentRange> fragments() const { return fragments_; }
  int fragment_count() const { return static_cast<int>(fragments_.size()); }
  int64_t element_count() const { return element_count_; }
  // Where a fragment's decayed tensors lie, from the start of the fragment: ascending, neighbours joined.
  std::vector<ElementRange> DecayedRanges(int fragment) const;
  // Covers names, shapes, layers, decay flags and the cut.
  const Digest& digest() const { return digest_; }

 private:
  Layout() = default;
  std::vector<TensorSpec> tensors_;
  std::vector<TensorPlacement> placements_;
  std::vector<FragmentRange> fragments_;
  int64_t element_count_ = 0;
  Digest digest_;
};

}  // namespace diloco
