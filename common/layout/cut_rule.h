// PURE: which fragment each tensor belongs to. The rule is part of the run's configuration, so that every machine cuts
// the same tensors alike.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/layout/tensor_spec.h"

namespace diloco {

// One of three ways; those further down win.
struct CutRule {
  // At most so many runs of consecutive units (a layer, or a tensor of no layer), the largest as small as possible;
  // fewer when fewer units have elements. [1, kMaxFragments].
  int count = 8;
  // Fragments of so many layers each; 0: not this way. Tensors of no layer (embeddings, final norm) are apart, in a
  // first fragment of their own. Source: Streaming DiLoCo, arXiv 2501.18512, section 2 and figure 2.
  int layers_each = 0;
  // The layers of a fragment are P apart, P the number of such fragments (strided, as that paper prefers), or
  // consecutive.
  bool strided = true;
  // The layers of each fragment, written out; empty: not this way. Tensors of no layer as above.
  std::vector<std::vector<int>> layers;

  friend bool operator==(const CutRule&, const CutRule&) = default;
};

// The fragment of each tensor, by tensor index; fragments count from 0 and each of them has elements, unless the model
// has none. `tensors` have passed the checks of Layout::Cut. O(tensors * log elements).
// Errors, kInvalidArgument: a layer whose tensors are not consecutive; written-out layers that do not cover those of
// the model, name one twice or one that it lacks; a fragment without elements.
absl::StatusOr<std::vector<int>> AssignFragments(absl::Span<const TensorSpec> tensors, const CutRule& rule);

}  // namespace diloco
