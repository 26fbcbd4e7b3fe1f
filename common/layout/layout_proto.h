// Tensor descriptions on the wire.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "google/protobuf/repeated_ptr_field.h"

#include "common/layout/layout.h"
#include "diloco/v1/types.pb.h"

namespace diloco {

v1::TensorSpec TensorSpecToProto(const TensorSpec& tensor);

// Takes every field as it is: Layout::Cut checks them.
TensorSpec TensorSpecFromProto(const v1::TensorSpec& tensor);

google::protobuf::RepeatedPtrField<v1::TensorSpec> TensorSpecsToProto(absl::Span<const TensorSpec> tensors);
std::vector<TensorSpec> TensorSpecsFromProto(const google::protobuf::RepeatedPtrField<v1::TensorSpec>& tensors);

}  // namespace diloco
