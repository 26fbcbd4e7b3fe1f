#include "worker/trainer/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/trainer/transformer.h"

namespace diloco {
namespace {

const ModelSection kSmall = {.layers = 2, .width = 8, .heads = 2, .ffn = 12, .vocabulary = 11, .sequence = 6};

// Parameters in the order of TransformerTensors; the norms' weights are not 1, so that each of them matters.
std::vector<torch::Tensor> Parameters(const ModelSection& model) {
  std::vector<torch::Tensor> parameters;
  for (const TensorSpec& spec : TransformerTensors(model)) {
    std::vector<float> values(static_cast<size_t>(spec.ElementCount()));
    FillInitialValues(model, spec, 3, absl::MakeSpan(values));
    const torch::Tensor tensor = torch::from_blob(values.data(), spec.shape, torch::kFloat32).clone();
    if (spec.shape.size() == 1) {
      tensor.add_(0.1 * torch::arange(spec.shape[0]));
    } else if (spec.layer < 0) {
      tensor.mul_(30);  // Embeddings and logits of size about 1.
    }
    parameters.push_back(tensor);
  }
  return parameters;
}

torch::Tensor Tokens(const std::vector<int64_t>& tokens) { return torch::tensor(tokens, torch::kInt64).unsqueeze(0); }

// The same model, one number at a time, in double.
class NaiveModel {
 public:
  using Vector = std::vector<double>;

  NaiveModel(const ModelSection& model, const std::vector<torch::Tensor>& parameters) : model_(model) {
    const std::vector<TensorSpec> specs = TransformerTensors(model);
    for (size_t i = 0; i < specs.size(); ++i) {
      const torch::Tensor flat = parameters[i].flatten().contiguous();
      tensors_[specs[i].name] = Vector(flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
    }
  }

  std::vector<Vector> Forward(const std::vector<int64_t>& tokens) const {
    const auto width = static_cast<size_t>(model_.width);
    std::vector<Vector> x;
    for (const int64_t token : tokens) {
      const Vector& table = tensors_.at("embedding.weight");
      const auto row = table.begin() + token * model_.width;
      x.emplace_back(row, row + model_.width);
    }
    for (int layer = 0; layer < model_.layers; ++layer) {
      const std::string prefix = "layers." + std::to_string(layer) + ".";
      const std::vector<Vector> mixed = Attention(x, prefix + "attention.");
      for (size_t t = 0; t < x.size(); ++t) {
        for (size_t i = 0; i < width; ++i) {
          x[t][i] += mixed[t][i];
        }
        Vector hidden = Times(prefix + "feed_forward.up.weight", Norm(x[t], prefix + "feed_forward.norm.weight"));
        for (double& h : hidden) {
          h *= 0.5 * std::erfc(-h / std::sqrt(2.0));
        }
        const Vector down = Times(prefix + "feed_forward.down.weight", hidden);
        for (size_t i = 0; i < width; ++i) {
          x[t][i] += down[i];
        }
      }
    }
    std::vector<Vector> logits;
    for (const Vector& row : x) {
      logits.push_back(Times("head.weight", Norm(row, "norm.weight")));
    }
    return logits;
  }

 private:
  Vector Times(const std::string& name, const Vector& x) const {
    const Vector& matrix = tensors_.at(name);
    Vector out(matrix.size() / x.size());
    for (size_t o = 0; o < out.size(); ++o) {
      for (size_t i = 0; i < x.size(); ++i) {
        out[o] += matrix[o * x.size() + i] * x[i];
      }
    }
    return out;
  }

  Vector Norm(Vector x, const std::string& name) const {
    double squares = 0;
    for (const double value : x) {
      squares += value * value;
    }
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] *= tensors_.at(name)[i] / std::sqrt(squares / static_cast<double>(x.size()) + 1e-6);
    }
    return x;
  }

  // One head's part of a projection, normed and turned to position t.
  Vector Head(const Vector& all, size_t head, size_t t, const std::string& norm) const {
    const size_t size = static_cast<size_t>(model_.width / model_.heads);
    const auto begin = all.begin() + static_cast<ptrdiff_t>(head * size);
    const Vector x = Norm(Vector(begin, begin + static_cast<ptrdiff_t>(size)), norm);
    Vector turned = x;
    for (size_t i = 0; i < size / 2; ++i) {
      const double angle =
          static_cast<double>(t) * std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(size));
      turned[i] = x[i] * std::cos(angle) - x[i + size / 2] * std::sin(angle);
      turned[i + size / 2] = x[i + size / 2] * std::cos(angle) + x[i] * std::sin(angle);
    }
    return turned;
  }

  std::vector<Vector> Attention(const std::vector<Vector>& x, const std::string& prefix) const {
    const size_t size = static_cast<size_t>(model_.width / model_.heads);
    std::vector<Vector> queries, keys, values, out;
    for (const Vector& row : x) {
      const Vector normed = Norm(row, prefix + "norm.weight");
      queries.push_back(Times(prefix + "query.weight", normed));
      keys.push_back(Times(prefix + "key.weight", normed));
      values.push_back(Times(prefix + "value.weight", normed));
    }
    for (size_t t = 0; t < x.size(); ++t) {
      Vector mixed(x[t].size());
      for (size_t head = 0; head < static_cast<size_t>(model_.heads); ++head) {
        const Vector query = Head(queries[t], head, t, prefix + "query_norm.weight");
        Vector weights;
        double total = 0;
        for (size_t s = 0; s <= t; ++s) {
          const Vector key = Head(keys[s], head, s, prefix + "key_norm.weight");
          double product = 0;
          for (size_t i = 0; i < size; ++i) {
            product += query[i] * key[i];
          }
          weights.push_back(std::exp(product / std::sqrt(static_cast<double>(size))));
          total += weights.back();
        }
        for (size_t s = 0; s <= t; ++s) {
          for (size_t i = 0; i < size; ++i) {
            mixed[head * size + i] += weights[s] / total * values[s][head * size + i];
          }
        }
      }
      out.push_back(Times(prefix + "output.weight", mixed));
    }
    return out;
  }

  ModelSection model_;
  std::map<std::string, Vector> tensors_;
};

TEST(ModelTest, ForwardEqualsANaiveImplementation) {
  const std::vector<torch::Tensor> parameters = Parameters(kSmall);
  const std::vector<int64_t> tokens = {3, 10, 0, 3, 7, 1};
  const torch::Tensor logits = Model(kSmall, parameters, torch::kCPU).Forward(Tokens(tokens));
  ASSERT_EQ(logits.sizes(), (std::vector<int64_t>{1, 6, 11}));
  const auto expected = NaiveModel(kSmall, parameters).Forward(tokens);
  for (size_t t = 0; t < expected.size(); ++t) {
    for (size_t token = 0; token < expected[t].size(); ++token) {
      EXPECT_NEAR(logits[0][static_cast<int64_t>(t)][static_cast<int64_t>(token)].item<double>(), expected[t][token],
                  2e-5);
    }
  }
}

TEST(ModelTest, SequencesOfABatchAndShorterOnesAreIndependent) {
  const Model model(kSmall, Parameters(kSmall), torch::kCPU);
  const torch::Tensor first = Tokens({3, 10, 0, 3});
  const torch::Tensor second = Tokens({5, 5, 9, 2});
  const torch::Tensor both = model.Forward(torch::cat({first, second}));
  ASSERT_EQ(both.sizes(), (std::vector<int64_t>{2, 4, 11}));
  EXPECT_TRUE(torch::allclose(both[0], model.Forward(first)[0], 1e-5, 1e-6));
  EXPECT_TRUE(torch::allclose(both[1], model.Forward(second)[0], 1e-5, 1e-6));
}

TEST(ModelTest, LaterTokenChangesNoEarlierLogits) {
  const Model model(kSmall, Parameters(kSmall), torch::kCPU);
  const torch::Tensor before = model.Forward(Tokens({3, 10, 0, 3, 7, 1}))[0];
  const torch::Tensor after = model.Forward(Tokens({3, 10, 0, 3, 8, 1}))[0];
  EXPECT_TRUE(torch::equal(before.narrow(0, 0, 4), after.narrow(0, 0, 4)));
  EXPECT_FALSE(torch::allclose(before[4], after[4]));
  EXPECT_FALSE(torch::allclose(before[5], after[5]));
}

TEST(ModelTest, NormedQueriesAndKeysIgnoreTheScaleOfTheirProjections) {
  std::vector<torch::Tensor> parameters = Parameters(kSmall);
  const std::vector<TensorSpec> specs = TransformerTensors(kSmall);
  const torch::Tensor tokens = Tokens({3, 10, 0, 3, 7, 1});
  const torch::Tensor before = Model(kSmall, parameters, torch::kCPU).Forward(tokens);
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == "layers.0.attention.query.weight" || specs[i].name == "layers.1.attention.key.weight") {
      parameters[i] = 50 * parameters[i];
    }
  }
  EXPECT_TRUE(torch::allclose(Model(kSmall, parameters, torch::kCPU).Forward(tokens), before, 1e-3, 1e-4));
}

TEST(ModelTest, Bf16RoundsProductsOnly) {
  ModelSection section = kSmall;
  section.precision = Precision::kBf16;
  const std::vector<torch::Tensor> parameters = Parameters(kSmall);
  const std::vector<int64_t> tokens = {3, 10, 0, 3, 7, 1};
  const torch::Tensor logits = Model(section, parameters, torch::kCPU).Forward(Tokens(tokens));
  EXPECT_EQ(logits.dtype(), torch::kFloat32);
  const auto exact = NaiveModel(kSmall, parameters).Forward(tokens);
  double largest = 0;
  double difference = 0;
  for (size_t t = 0; t < exact.size(); ++t) {
    for (size_t token = 0; token < exact[t].size(); ++token) {
      const double logit = logits[0][static_cast<int64_t>(t)][static_cast<int64_t>(token)].item<double>();
      largest = std::max(largest, std::abs(exact[t][token]));
      difference = std::max(difference, std::abs(logit - exact[t][token]));
    }
  }
  // bf16 rounds by up to 2^-9; a path through the model has about ten roundings.
  EXPECT_LT(difference, 10 * std::ldexp(largest, -9));
  EXPECT_GT(difference, std::ldexp(largest, -13));
}

TEST(ModelTest, Bf16GradientsAreFloat32) {
  ModelSection section = kSmall;
  section.precision = Precision::kBf16;
  std::vector<torch::Tensor> parameters = Parameters(kSmall);
  for (torch::Tensor& parameter : parameters) {
    parameter.requires_grad_(true);
  }
  const torch::Tensor targets = Tokens({10, 0, 3, 7, 1, 2});
  const ModelLoss loss = LossOf(Model(section, parameters, torch::kCPU).Forward(Tokens({3, 10, 0, 3, 7, 1})), targets);
  EXPECT_EQ(loss.cross_entropy.dtype(), torch::kFloat32);
  loss.cross_entropy.backward();
  for (const torch::Tensor& parameter : parameters) {
    EXPECT_EQ(parameter.grad().dtype(), torch::kFloat32);
    EXPECT_GT(parameter.grad().abs().sum().item<double>(), 0);
  }
}

TEST(ModelTest, PrecisionNeedsADeviceThatHasIt) {
  EXPECT_TRUE(CheckPrecision(Precision::kBf16, torch::kCPU).ok());
  const absl::Status absent = CheckPrecision(Precision::kBf16, torch::Device("cuda:63"));
  EXPECT_EQ(absent.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(absent.message()),
            "device cuda:63 cannot multiply matrices of the run's model.precision, bf16; use another device, or a run "
            "with fp32");
}

TEST(RmsNormTest, Bf16IsNormedInFloat32) {
  const torch::Tensor x = torch::linspace(-2, 3, 64);
  const torch::Tensor weight = torch::linspace(0.5, 1.5, 64);
  const torch::Tensor rounded = x.to(torch::kBFloat16);
  EXPECT_TRUE(torch::equal(RmsNorm(rounded, weight), RmsNorm(rounded.to(torch::kFloat32), weight)));
}

TEST(RmsNormTest, ScalesToUnitMeanSquare) {
  const torch::Tensor normed = RmsNorm(torch::tensor({3.0f, -4.0f}), torch::tensor({1.0f, 2.0f}));
  EXPECT_NEAR(normed[0].item<double>(), 3 / std::sqrt(12.5), 1e-6);
  EXPECT_NEAR(normed[1].item<double>(), -8 / std::sqrt(12.5), 1e-6);
}

TEST(RotaryTest, TurnsPairsByTheStatedAngles) {
  const Rotary rotary(8, 4, torch::kCPU);
  const torch::Tensor x = torch::tensor({1.0f, 2.0f, 3.0f, 4.0f}).expand({1, 1, 8, 4});
  const torch::Tensor turned = rotary.Apply(x)[0][0];
  EXPECT_TRUE(torch::equal(turned[0], x[0][0][0]));
  // Pairs (1, 3) and (2, 4); at position 5 the angles are 5 and 5 / 100.
  EXPECT_NEAR(turned[5][0].item<double>(), std::cos(5.0) - 3 * std::sin(5.0), 1e-5);
  EXPECT_NEAR(turned[5][2].item<double>(), 3 * std::cos(5.0) + std::sin(5.0), 1e-5);
  EXPECT_NEAR(turned[5][1].item<double>(), 2 * std::cos(0.05) - 4 * std::sin(0.05), 1e-5);
  EXPECT_NEAR(turned[5][3].item<double>(), 4 * std::cos(0.05) + 2 * std::sin(0.05), 1e-5);
}

TEST(RotaryTest, ProductsDependOnTheDistanceOnly) {
  const Rotary rotary(16, 8, torch::kCPU);
  const torch::Tensor query = rotary.Apply(torch::linspace(-1, 1, 8).expand({1, 1, 16, 8}))[0][0];
  const torch::Tensor key = rotary.Apply(torch::linspace(2, -3, 8).expand({1, 1, 16, 8}))[0][0];
  const torch::Tensor products = torch::matmul(query, key.t());
  for (int64_t t = 0; t + 4 < 16; ++t) {
    EXPECT_NEAR(products[t + 4][t].item<double>(), products[4][0].item<double>(), 1e-4);
    EXPECT_NEAR(products[t][t + 4].item<double>(), products[0][4].item<double>(), 1e-4);
  }
  EXPECT_GT(std::abs(products[4][0].item<double>() - products[0][4].item<double>()), 0.1);
}

TEST(LossTest, EqualsTheClosedForm) {
  // Equal logits c: the log-partition is c + ln V, and every token costs ln V.
  const torch::Tensor targets = torch::tensor({0, 5, 10}, torch::kInt64).unsqueeze(0);
  const ModelLoss flat = LossOf(torch::full({1, 3, 11}, 2.0f), targets);
  EXPECT_NEAR(flat.cross_entropy.item<double>(), std::log(11.0), 1e-6);
  EXPECT_NEAR(flat.z_loss.item<double>(), std::pow(2 + std::log(11.0), 2), 1e-5);
  // One position, two tokens with logits ln 1 and ln 3.
  const ModelLoss two =
      LossOf(torch::tensor({0.0f, std::log(3.0f)}).view({1, 1, 2}), torch::ones({1, 1}, torch::kInt64));
  EXPECT_NEAR(two.cross_entropy.item<double>(), std::log(4 / 3.0), 1e-6);
  EXPECT_NEAR(two.z_loss.item<double>(), std::pow(std::log(4.0), 2), 1e-6);
}

TEST(LossTest, HugeLogitsStayFinite) {
  const ModelLoss loss = LossOf(torch::tensor({1e4f, -1e4f}).view({1, 1, 2}), torch::ones({1, 1}, torch::kInt64));
  EXPECT_DOUBLE_EQ(loss.cross_entropy.item<double>(), 2e4);
}

}  // namespace
}  // namespace diloco
