// The merge: weighted average of encoded contributions, encoded for the way down. Runs over blocks, on a pool of the
// caller's; the train simulator uses the same code.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/base/digest.h"
#include "common/codec/codec.h"

namespace diloco {

// One contribution of the merged set. Views must outlive the call.
struct MergeInput {
  std::string_view encoded;
  double weight = 0;  // > 0, finite.
};

struct MergeResult {
  std::string encoded;  // With the downlink codec.
  Digest digest;        // Of `encoded`.
  double norm = 0;      // L2 norm of the average as published, the same bits however the work is spread.
};

// Runs body(i) for i in [0, count), in any order and on any threads, and returns when all are done. The threads have
// the default floating-point environment (denormals kept).
using ParallelFor = std::function<void(int64_t count, const std::function<void(int64_t)>& body)>;
// On the calling thread.
void SerialFor(int64_t count, const std::function<void(int64_t)>& body);

struct MergeOptions {
  Rounding rounding;  // Of the published average, at its first element.
  // Error feedback (error_feedback.h), [elements] or empty: added to the average, and afterwards what publishing it
  // lost. Undefined after an error.
  absl::Span<float> residual;
};

// average[i] = sum over inputs, in the order given, of float(weight / total) * decoded[i], accumulated in float32, so
// that the same inputs in the same order give the same bytes, however the work is spread. The caller orders inputs by
// (worker id, round). No inputs: the average is zero. Shapes: every input encodes `elements` values. Works on a piece
// at a time: the average as float32 is never held whole. Errors, kInvalidArgument: a size that does not fit `elements`,
// a weight that is not positive and finite, or a weighted average that is not finite.
absl::StatusOr<MergeResult> Merge(absl::Span<const MergeInput> inputs, uint64_t elements, const Codec& uplink,
                                  const Codec& downlink, const ParallelFor& parallel_for,
                                  const MergeOptions& options = {});

}  // namespace diloco
