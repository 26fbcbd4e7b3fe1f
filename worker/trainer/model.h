// The transformer that transformer.h describes, computed with LibTorch. Written with plain tensor operations, the
// same for every LibTorch from 1.13 on and for every device.
//
// Products of matrices are computed in model.precision, on arguments rounded to it; everything else is float32, also
// the sum that runs through the layers. The casts are written out, because LibTorch's autocast would take the norms
// into bf16 too.
//
// Shapes: B sequences, T tokens each, D = width, H = heads, E = D / H, V = vocabulary.
#pragma once

#include <torch/types.h>

#include <vector>

#include "absl/status/status.h"

#include "common/config/run_config.h"

namespace diloco {

// x / rms(x) * weight over the last dimension, in float32 and so returned. Shapes: x [..., n], weight [n].
torch::Tensor RmsNorm(const torch::Tensor& x, const torch::Tensor& weight);

// Turns the pair (x[i], x[i + E/2]) at position t by the angle t * 10000^(-2i/E), so that the product of two turned
// vectors depends on their distance only. Source: Su et al., RoFormer (2021).
class Rotary {
 public:
  Rotary(int sequence, int head_width, torch::Device device);
  // Shapes: x [B, H, T, E], T <= sequence; the result has the same.
  torch::Tensor Apply(const torch::Tensor& x) const;

 private:
  torch::Tensor cosine_;  // [sequence, E / 2]
  torch::Tensor sine_;
};

// Errors, kFailedPrecondition: LibTorch cannot multiply matrices of that precision on the device.
absl::Status CheckPrecision(Precision precision, torch::Device device);

class Model {
 public:
  // `parameters`: in the order of TransformerTensors, on `device`; kept, not copied.
  Model(const ModelSection& model, const std::vector<torch::Tensor>& parameters, torch::Device device);

  // Logits of the token after each. Shapes: tokens [B, T] int64, T <= model.sequence; result [B, T, V] float32.
  torch::Tensor Forward(const torch::Tensor& tokens) const;

 private:
  struct Layer {
    torch::Tensor attention_norm, query, key, value, query_norm, key_norm, output;
    torch::Tensor feed_forward_norm, up, down;
  };

  // x times the transposed weight.
  torch::Tensor Linear(const torch::Tensor& x, const torch::Tensor& weight) const;
  torch::Tensor Attention(const Layer& layer, const torch::Tensor& x) const;

  int heads_;
  torch::ScalarType precision_;  // Of products and their results.
  Rotary rotary_;
  torch::Tensor mask_;  // [sequence, sequence]: minus infinity where a token would see a later one.
  torch::Tensor embedding_, norm_, head_;
  std::vector<Layer> layers_;
};

// Means over all B * T predictions; scalars.
struct ModelLoss {
  torch::Tensor cross_entropy;  // Nats a token.
  torch::Tensor z_loss;         // Square of the log-partition, which z-loss keeps near 0.
};

// Shapes: logits [B, T, V], targets [B, T] int64.
ModelLoss LossOf(const torch::Tensor& logits, const torch::Tensor& targets);

}  // namespace diloco
