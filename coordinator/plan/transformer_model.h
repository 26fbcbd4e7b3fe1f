// The size of this project's transformer (worker/trainer). Pure.
#pragma once

#include <cstdint>

#include "coordinator/plan/plan.h"

namespace diloco {

struct TransformerShape {
  int layers = 0;
  int64_t width = 0;
  int64_t head_width = 0;
  int64_t feed_forward = 0;  // Hidden width of that block.
  int64_t vocabulary = 0;
};

// Without step_seconds.
constexpr PlanModel TransformerModel(const TransformerShape& shape) {
  // Two norms, four square matrices, norms of queries and keys, two matrices of the feed-forward block.
  const int64_t layer =
      2 * shape.width + 4 * shape.width * shape.width + 2 * shape.head_width + 2 * shape.width * shape.feed_forward;
  return {.layers = shape.layers,
          .layer_parameters = layer,
          .embedding_parameters = shape.vocabulary * shape.width,
          .head_parameters = shape.width + shape.vocabulary * shape.width};
}

}  // namespace diloco
