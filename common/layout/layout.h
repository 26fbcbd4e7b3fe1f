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

namespace diloco {

struct TensorSpec {
  std::string name;            // Unique, 1 to kMaxTensorNameBytes bytes.
  std::vector<int64_t> shape;  // Each >= 0. Empty: a scalar, one element.
  int layer = -1;              // >= 0, or -1 for none. A layer's tensors share a fragment.
  bool decay = false;          // The inner optimizer decays it.

  // Product of the extents; INT64_MAX where that overflows. Extents as Layout::Cut accepts them.
  int64_t ElementCount() const;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

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
  // Cuts `tensors` into `fragments` runs of consecutive units (a layer, or a tensor of no layer), so that the largest
  // fragment is as small as possible; into fewer when fewer units have elements. O(tensors * log elements).
  // Errors, kInvalidArgument: no tensors or too many, a bad, reserved (`__metadata__`) or repeated name, a negative or
  // overflowing shape, a layer whose tensors are not consecutive, `fragments` outside [1, kMaxFragments].
  static absl::StatusOr<Layout> Cut(std::vector<TensorSpec> tensors, int fragments);

  absl::Span<const TensorSpec> tensors() const { return tensors_; }
  // By tensor index; ascending in offset within a fragment.
  absl::Span<const TensorPlacement> placements() const { return placements_; }
  absl::Span<const FragmentRange> fragments() const { return fragments_; }
  int fragment_count() const { return static_cast<int>(fragments_.size()); }
  int64_t element_count() const { return element_count_; }
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
