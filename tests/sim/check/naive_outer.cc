#include "tests/sim/check/naive_outer.h"

#include <cmath>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/digest.h"

namespace diloco::sim {

void NaiveConsensus::Start(const std::string& optimizer, std::vector<float> initial, std::vector<bool> decays) {
  const size_t arrays = optimizer == "sgd" ? 0 : optimizer == "nesterov" ? 1 : 2;
  state.assign(arrays, std::vector<float>(initial.size(), 0.0f));
  parameters = std::move(initial);
  decayed = std::move(decays);
  version = 0;
}

void NaiveConsensus::Apply(const std::string& optimizer, const v1::StepScalars& scalars,
                           const std::vector<float>& average) {
  DILOCO_CHECK(average.size() == parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    float& s = parameters[i];
    if (scalars.decay() != 0 && decayed[i]) s = (1 - scalars.decay()) * s;
    const float g = scalars.clip_scale() * average[i];
    if (optimizer == "sgd") {
      s = s - scalars.rate() * g;
      continue;
    }
    if (optimizer == "nesterov") {
      float& b = state[0][i];
      b = scalars.momentum() * b + g;
      s = s - scalars.rate() * (g + scalars.momentum() * b);
      continue;
    }
    float& m = state[0][i];
    float& v = state[1][i];
    m = scalars.beta1() * m + (1 - scalars.beta1()) * g;
    const float square = g * g;
    if (optimizer == "yogi") {
      const float step = (1 - scalars.beta2()) * square;
      if (v > square) {
        v = v - step;
      } else if (v < square) {
        v = v + step;
      }
    } else if (optimizer == "adagrad") {
      v = v + square;
    } else {
      DILOCO_CHECK(optimizer == "adam" || optimizer == "adamw");
      v = scalars.beta2() * v + (1 - scalars.beta2()) * square;
    }
    const float root = std::sqrt(v / scalars.variance_correction()) + scalars.epsilon();
    s = s - scalars.rate() / scalars.mean_correction() * (m / root);
  }
  ++version;
}

std::string NaiveConsensus::Digest() const {
  std::string bytes;
  const auto add = [&bytes](const std::vector<float>& values) {
    bytes += std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  };
  add(parameters);
  for (const std::vector<float>& array : state) add(array);
  return DigestOf(bytes).Bytes();
}

}  // namespace diloco::sim
