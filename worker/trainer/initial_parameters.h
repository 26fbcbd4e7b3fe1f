// First parameters from a file. Free of LibTorch.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/layout/layout.h"
#include "common/safetensors/safetensors_reader.h"

namespace diloco {

// The values of `tensors`, one after the other, float32. Errors, kInvalidArgument: a tensor is missing or has another
// shape, or the file holds one that the model does not have; and those of SafetensorsReader::Read.
absl::StatusOr<std::vector<float>> ReadInitialParameters(const SafetensorsReader& file,
                                                         absl::Span<const TensorSpec> tensors);

}  // namespace diloco
