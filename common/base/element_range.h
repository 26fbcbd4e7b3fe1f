#pragma once

#include <cstdint>

namespace diloco {

// Elements [offset, offset + count) of some array.
struct ElementRange {
  int64_t offset = 0;
  int64_t count = 0;

  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

}  // namespace diloco
