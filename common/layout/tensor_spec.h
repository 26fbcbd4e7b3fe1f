// One parameter tensor, as a trainer describes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace diloco
