#include "worker/trainer/transformer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/digest.h"

namespace diloco {
namespace {

constexpr double kEmbeddingDeviation = 0.02;

// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
uint64_t NextRandom(uint64_t& state) {
  state += 0x9e3779b97f4a7c15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Close to standard normal: the sum of twelve uniform 16-bit numbers, mean and variance taken out. Integers all the
// way, so no two math libraries can disagree.
double NextNormal(uint64_t& state) {
  constexpr double kMean = 12 * 65535 / 2.0;
  int64_t sum = 0;
  for (int word = 0; word < 3; ++word) {
    const uint64_t bits = NextRandom(state);
    sum += static_cast<int64_t>((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
  }
  return (static_cast<double>(sum) - kMean) / 65536.0;
}

double Deviation(const ModelSection& model, const TensorSpec& tensor) {
  if (tensor.layer < 0) {
    return kEmbeddingDeviation;
  }
  const double deviation = 1 / std::sqrt(static_cast<double>(tensor.shape[1]));
  const bool residual = absl::EndsWith(tensor.name, ".output.weight") || absl::EndsWith(tensor.name, ".down.weight");
  return residual ? deviation / std::sqrt(2.0 * model.layers) : deviation;
}

}  // namespace

std::vector<TensorSpec> TransformerTensors(const ModelSection& model) {
  const int64_t width = model.width;
  const int64_t head_width = width / model.heads;
  std::vector<TensorSpec> tensors;
  const auto add = [&tensors](std::string name, std::vector<int64_t> shape, int layer, bool decay) {
    tensors.push_back({.name = std::move(name), .shape = std::move(shape), .layer = layer, .decay = decay});
  };
  add("embedding.weight", {model.vocabulary, width}, -1, false);
  for (int layer = 0; layer < model.layers; ++layer) {
    const std::string attention = absl::StrCat("layers.", layer, ".attention.");
    const std::string feed_forward = absl::StrCat("layers.", layer, ".feed_forward.");
    add(attention + "norm.weight", {width}, layer, false);
    add(attention + "query.weight", {width, width}, layer, true);
    add(attention + "key.weight", {width, width}, layer, true);
    add(attention + "value.weight", {width, width}, layer, true);
    add(attention + "query_norm.weight", {head_width}, layer, false);
    add(attention + "key_norm.weight", {head_width}, layer, false);
    add(attention + "output.weight", {width, width}, layer, true);
    add(feed_forward + "norm.weight", {width}, layer, false);
    add(feed_forward + "up.weight", {model.ffn, width}, layer, true);
    add(feed_forward + "down.weight", {width, model.ffn}, layer, true);
  }
  add("norm.weight", {width}, -1, false);
  add("head.weight", {model.vocabulary, width}, -1, true);
  return tensors;
}

void FillInitialValues(const ModelSection& model, const TensorSpec& tensor, uint64_t seed, absl::Span<float> out) {
  DILOCO_CHECK(static_cast<int64_t>(out.size()) == tensor.ElementCount());
  if (tensor.shape.size() == 1) {
    std::fill(out.begin(), out.end(), 1.0f);
    return;
  }
  const double deviation = Deviation(model, tensor);
  uint64_t state = seed ^ DigestOf(tensor.name).low;
  for (float& value : out) {
    value = static_cast<float>(deviation * NextNormal(state));
  }
}

}  // namespace diloco
