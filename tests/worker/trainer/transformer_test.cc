#include "worker/trainer/transformer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace diloco {
namespace {

const ModelSection kModel = {.layers = 3, .width = 64, .heads = 4, .ffn = 256, .vocabulary = 256, .sequence = 32};

std::vector<float> Values(const TensorSpec& tensor, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(tensor.ElementCount()));
  FillInitialValues(kModel, tensor, seed, absl::MakeSpan(values));
  return values;
}

std::map<std::string, TensorSpec> ByName() {
  std::map<std::string, TensorSpec> tensors;
  for (const TensorSpec& tensor : TransformerTensors(kModel)) {
    EXPECT_TRUE(tensors.emplace(tensor.name, tensor).second) << tensor.name;
  }
  return tensors;
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments MomentsOf(const std::vector<float>& values) {
  const auto n = static_cast<double>(values.size());
  Moments moments;
  for (const float value : values) {
    moments.mean += value / n;
  }
  for (const float value : values) {
    moments.deviation += (value - moments.mean) * (value - moments.mean) / n;
  }
  moments.deviation = std::sqrt(moments.deviation);
  return moments;
}

TEST(TransformerTest, TensorsAddUpToTheModel) {
  int64_t elements = 0;
  for (const TensorSpec& tensor : TransformerTensors(kModel)) {
    elements += tensor.ElementCount();
  }
  // Embedding and head, final norm; in a layer: four attention and two feed-forward matrices, two norms, two head
  // norms.
  EXPECT_EQ(elements, 2 * 256 * 64 + 64 + 3 * (4 * 64 * 64 + 2 * 64 * 256 + 2 * 64 + 2 * 16));
  EXPECT_EQ(TransformerTensors(kModel).size(), 3u + 3u * 10u);
}

TEST(TransformerTest, TensorsSayLayerShapeAndDecay) {
  const auto tensors = ByName();
  const TensorSpec& query = tensors.at("layers.0.attention.query.weight");
  EXPECT_EQ(query.shape, (std::vector<int64_t>{64, 64}));
  EXPECT_EQ(query.layer, 0);
  EXPECT_TRUE(query.decay);
  EXPECT_EQ(tensors.at("layers.2.feed_forward.up.weight").shape, (std::vector<int64_t>{256, 64}));
  EXPECT_EQ(tensors.at("layers.2.feed_forward.up.weight").layer, 2);
  EXPECT_EQ(tensors.at("layers.1.attention.key_norm.weight").shape, (std::vector<int64_t>{16}));
  EXPECT_FALSE(tensors.at("layers.1.attention.key_norm.weight").decay);
  EXPECT_FALSE(tensors.at("embedding.weight").decay);
  EXPECT_EQ(tensors.at("embedding.weight").layer, -1);
  EXPECT_TRUE(tensors.at("head.weight").decay);
}

TEST(TransformerTest, TensorsCanBeCut) {
  const auto layout = Layout::Cut(TransformerTensors(kModel), {.count = 8});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->fragment_count(), 6);  // Embedding, three layers, norm, head.
}

TEST(TransformerTest, InitialValuesAreNormalWithTheStatedDeviation) {
  const auto tensors = ByName();
  const std::map<std::string, double> deviations = {{"embedding.weight", 0.02},
                                                    {"head.weight", 0.02},
                                                    {"layers.1.attention.key.weight", 1 / 8.0},
                                                    {"layers.1.attention.output.weight", 1 / 8.0 / std::sqrt(6)},
                                                    {"layers.1.feed_forward.up.weight", 1 / 8.0},
                                                    {"layers.1.feed_forward.down.weight", 1 / 16.0 / std::sqrt(6)}};
  for (const auto& [name, deviation] : deviations) {
    const std::vector<float> values = Values(tensors.at(name), 1);
    const auto n = static_cast<double>(values.size());
    const Moments moments = MomentsOf(values);
    EXPECT_NEAR(moments.mean, 0, 5 * deviation / std::sqrt(n)) << name;
    EXPECT_NEAR(moments.deviation, deviation, 5 * deviation / std::sqrt(2 * n)) << name;
    // Of a normal variable, 4.55 % lie more than two standard deviations out; of a uniform one, none.
    double outside = 0;
    for (const float value : values) {
      outside += std::abs(value) > 2 * deviation ? 1 / n : 0;
    }
    EXPECT_NEAR(outside, 0.0455, 0.0455 * 0.3) << name;
  }
  EXPECT_EQ(Values(tensors.at("layers.0.attention.query_norm.weight"), 1), std::vector<float>(16, 1.0f));
}

TEST(TransformerTest, InitialValuesFollowFromSeedAndName) {
  const auto tensors = ByName();
  const TensorSpec& query = tensors.at("layers.0.attention.query.weight");
  EXPECT_EQ(Values(query, 1), Values(query, 1));
  EXPECT_NE(Values(query, 1), Values(query, 2));
  EXPECT_NE(Values(query, 1), Values(tensors.at("layers.0.attention.key.weight"), 1));
  EXPECT_NE(Values(query, 1), Values(tensors.at("layers.1.attention.query.weight"), 1));
}

}  // namespace
}  // namespace diloco
