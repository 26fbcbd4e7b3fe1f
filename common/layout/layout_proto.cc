#include "common/layout/layout_proto.h"

namespace diloco {

v1::TensorSpec TensorSpecToProto(const TensorSpec& tensor) {
  v1::TensorSpec proto;
  proto.set_name(tensor.name);
  proto.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  proto.set_layer(tensor.layer);
  proto.set_decay(tensor.decay);
  return proto;
}

TensorSpec TensorSpecFromProto(const v1::TensorSpec& tensor) {
  return {.name = tensor.name(),
          .shape = {tensor.shape().begin(), tensor.shape().end()},
          .layer = tensor.layer(),
          .decay = tensor.decay()};
}

google::protobuf::RepeatedPtrField<v1::TensorSpec> TensorSpecsToProto(absl::Span<const TensorSpec> tensors) {
  google::protobuf::RepeatedPtrField<v1::TensorSpec> protos;
  protos.Reserve(static_cast<int>(tensors.size()));
  for (const TensorSpec& tensor : tensors) *protos.Add() = TensorSpecToProto(tensor);
  return protos;
}

std::vector<TensorSpec> TensorSpecsFromProto(const google::protobuf::RepeatedPtrField<v1::TensorSpec>& protos) {
  std::vector<TensorSpec> tensors;
  tensors.reserve(static_cast<size_t>(protos.size()));
  for (const v1::TensorSpec& proto : protos) tensors.push_back(TensorSpecFromProto(proto));
  return tensors;
}

}  // namespace diloco
