#include "worker/trainer/model.h"

#include <cmath>
#include <cstddef>
#include <exception>
#include <limits>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"

namespace diloco {
namespace {

constexpr double kNormEpsilon = 1e-6;
constexpr double kRotaryBase = 10000;

torch::ScalarType TypeOf(Precision precision) {
  return precision == Precision::kBf16 ? torch::kBFloat16 : torch::kFloat32;
}

}  // namespace

torch::Tensor RmsNorm(const torch::Tensor& x, const torch::Tensor& weight) {
  const torch::Tensor wide = x.to(torch::kFloat32);
  return wide * torch::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + kNormEpsilon) * weight;
}

Rotary::Rotary(int sequence, int head_width, torch::Device device) {
  // In double on the CPU, so that every device has the same table.
  const auto float64 = torch::TensorOptions().dtype(torch::kFloat64);
  const torch::Tensor exponent = torch::arange(0, head_width, 2, float64) / head_width;
  const torch::Tensor angle = torch::outer(torch::arange(sequence, float64), torch::pow(kRotaryBase, -exponent));
  cosine_ = angle.cos().to(device, torch::kFloat32);
  sine_ = angle.sin().to(device, torch::kFloat32);
}

torch::Tensor Rotary::Apply(const torch::Tensor& x) const {
  const torch::Tensor cosine = cosine_.narrow(0, 0, x.size(2));
  const torch::Tensor sine = sine_.narrow(0, 0, x.size(2));
  const std::vector<torch::Tensor> halves = x.chunk(2, -1);
  return torch::cat({halves[0] * cosine - halves[1] * sine, halves[1] * cosine + halves[0] * sine}, -1);
}

absl::Status CheckPrecision(Precision precision, torch::Device device) {
  try {
    const torch::Tensor some = torch::ones({16, 16}, torch::TensorOptions().device(device).dtype(TypeOf(precision)));
    torch::matmul(some, some).sum().item<double>();  // The sum waits for the device.
  } catch (const std::exception&) {
    return absl::FailedPreconditionError(
        absl::StrCat("device ", device.str(), " cannot multiply matrices of the run's model.precision, ",
                     precision == Precision::kBf16 ? "bf16" : "fp32", "; use another device, or a run with fp32"));
  }
  return absl::OkStatus();
}

Model::Model(const ModelSection& model, const std::vector<torch::Tensor>& parameters, torch::Device device)
    : heads_(model.heads),
      precision_(TypeOf(model.precision)),
      rotary_(model.sequence, model.width / model.heads, device) {
  const torch::Tensor later = torch::full({model.sequence, model.sequence}, -std::numeric_limits<float>::infinity());
  mask_ = later.triu(1).to(device);
  auto next = parameters.begin();
  embedding_ = *next++;
  for (int i = 0; i < model.layers; ++i) {
    Layer& layer = layers_.emplace_back();
    for (torch::Tensor* tensor : {&layer.attention_norm, &layer.query, &layer.key, &layer.value, &layer.query_norm,
                                  &layer.key_norm, &layer.output, &layer.feed_forward_norm, &layer.up, &layer.down}) {
      *tensor = *next++;
    }
  }
  norm_ = *next++;
  head_ = *next++;
  DILOCO_CHECK(next == parameters.end());
}

torch::Tensor Model::Forward(const torch::Tensor& tokens) const {
  torch::Tensor x = torch::embedding(embedding_, tokens);
  for (const Layer& layer : layers_) {
    x = x + Attention(layer, RmsNorm(x, layer.attention_norm));
    const torch::Tensor hidden = torch::gelu(Linear(RmsNorm(x, layer.feed_forward_norm), layer.up));
    x = x + Linear(hidden, layer.down);
  }
  return Linear(RmsNorm(x, norm_), head_).to(torch::kFloat32);
}

torch::Tensor Model::Linear(const torch::Tensor& x, const torch::Tensor& weight) const {
  return torch::linear(x.to(precision_), weight.to(precision_));
}

torch::Tensor Model::Attention(const Layer& layer, const torch::Tensor& x) const {
  const int64_t batch = x.size(0);
  const int64_t tokens = x.size(1);
  const int64_t head_width = x.size(2) / heads_;
  const auto split = [&](const torch::Tensor& projected) {
    return projected.view({batch, tokens, heads_, head_width});
  };
  const torch::Tensor query = RmsNorm(split(Linear(x, layer.query)), layer.query_norm).transpose(1, 2);
  const torch::Tensor key = RmsNorm(split(Linear(x, layer.key)), layer.key_norm).transpose(1, 2);
  const torch::Tensor value = split(Linear(x, layer.value)).transpose(1, 2);
  // Written out: LibTorch 1.13 has no fused attention, and the fused ones do not all repeat bit for bit.
  const double scale = 1 / std::sqrt(static_cast<double>(head_width));
  const torch::Tensor turned_query = (rotary_.Apply(query) * scale).to(precision_);
  const torch::Tensor turned_key = rotary_.Apply(key).to(precision_);
  const torch::Tensor scores = torch::matmul(turned_query, turned_key.transpose(2, 3));
  const torch::Tensor mask = mask_.narrow(0, 0, tokens).narrow(1, 0, tokens);
  const torch::Tensor mixed = torch::matmul(torch::softmax(scores + mask, -1).to(precision_), value);
  return Linear(mixed.transpose(1, 2).reshape({batch, tokens, heads_ * head_width}), layer.output);
}

ModelLoss LossOf(const torch::Tensor& logits, const torch::Tensor& targets) {
  const torch::Tensor log_partition = torch::logsumexp(logits, -1);
  const torch::Tensor target_logits = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1);
  return {.cross_entropy = (log_partition - target_logits).mean(), .z_loss = log_partition.square().mean()};
}

}  // namespace diloco
