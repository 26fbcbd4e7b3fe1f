// The tensors of the model, by name, and their first values. Free of LibTorch; model.h computes with them.
//
// The model is a decoder-only transformer. Each layer is x + attention(norm(x)), then x + feed_forward(norm(x)), with
// RMS norms, rotary positions, normed queries and keys, a GELU feed-forward block, no biases, and a head of its own.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

#include "common/config/run_config.h"
#include "common/layout/layout.h"

namespace diloco {

// Every tensor in the order in which the model uses them. Matrices are [outputs, inputs]; with D = width, F = ffn,
// V = vocabulary, E = D / heads:
//   embedding.weight [V, D]
//   layers.N.attention.norm.weight [D], layers.N.attention.{query,key,value,output}.weight [D, D],
//   layers.N.attention.{query,key}_norm.weight [E],
//   layers.N.feed_forward.norm.weight [D], .up.weight [F, D], .down.weight [D, F]
//   norm.weight [D], head.weight [V, D]
// Weight decay is for matrices, but not for the embedding.
std::vector<TensorSpec> TransformerTensors(const ModelSection& model);

// The first values of one tensor, a function of the arguments alone: the same bits on every machine. Norms are 1; the
// embedding and the head are normal with standard deviation 0.02; the other matrices with 1 / sqrt(inputs), those that
// write into the residual stream divided by sqrt(2 * layers) too. Shapes: out [tensor.ElementCount()].
void FillInitialValues(const ModelSection& model, const TensorSpec& tensor, uint64_t seed, absl::Span<float> out);

}  // namespace diloco
