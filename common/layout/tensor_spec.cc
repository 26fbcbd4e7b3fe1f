#include "common/layout/tensor_spec.h"

#include <algorithm>
#include <limits>

namespace diloco {

int64_t TensorSpec::ElementCount() const {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t count = 1;
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count)) return std::numeric_limits<int64_t>::max();
  }
  return count;
}

}  // namespace diloco
