// The papers' models as configurations: what each file says against the papers' numbers.
#include "coordinator/plan/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"

#include "common/config/run_config.h"
#include "coordinator/driver/capacity.h"
#include "tests/support/paths.h"
#include "worker/trainer/transformer.h"

namespace diloco {
namespace {

// A row of Eager Updates' table of models, and what Scaling Laws for DiLoCo calls the same shape: the parameters with
// the embedding counted once.
struct Row {
  std::string name;
  int ffn;
  int layers;
  int heads;
  double tokens;
  double named_parameters;
  int64_t parameters;  // 2 V D + L (4 D^2 + 2 D F + 2 D + 2 * 64) + D, with D = 64 heads and V = 32,000.

  friend void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
};

const Row kRows[] = {
    {"35m", 2048, 6, 8, 700e6, 35e6, 51'649'792},      {"100m", 3072, 9, 12, 1.5e9, 90e6, 112'868'736},
    {"200m", 4096, 12, 16, 3.5e9, 180e6, 216'558'080}, {"300m", 5120, 15, 20, 6e9, 335e6, 376'873'600},
    {"500m", 6144, 18, 24, 11e9, 550e6, 607'971'072},  {"1b", 8192, 24, 32, 25e9, 1.3e9, 1'339'134'976},
    {"4b", 12288, 36, 48, 83e9, 4e9, 4'273'700'352},
};

std::string Folder() { return testing::SourcePath("deploy/presets"); }

class PresetTest : public ::testing::TestWithParam<Row> {
 protected:
  PresetTest() {
    const std::string path = Folder() + "/" + GetParam().name + ".yaml";
    std::ifstream stream(path);
    const std::string yaml((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    config_ = ParseRunConfig(yaml, path);
  }

  void SetUp() override { ASSERT_TRUE(config_.ok()) << config_.status(); }

  absl::StatusOr<RunConfig> config_ = absl::UnknownError("not read");
};

TEST_P(PresetTest, HasThePapersShape) {
  const Row& row = GetParam();
  ASSERT_TRUE(config_->model.has_value());
  const ModelSection& model = *config_->model;
  EXPECT_EQ(model.layers, row.layers);
  EXPECT_EQ(model.heads, row.heads);
  EXPECT_EQ(model.width, 64 * row.heads);
  EXPECT_EQ(model.ffn, row.ffn);
  EXPECT_EQ(model.vocabulary, 32'000);
  EXPECT_EQ(model.sequence, 1024);
  EXPECT_EQ(model.z_loss, 1e-4);
  EXPECT_EQ(model.precision, Precision::kBf16);
}

TEST_P(PresetTest, HasThePapersSize) {
  const auto layout = Layout::Cut(TransformerTensors(*config_->model), config_->fragments.cut);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->element_count(), GetParam().parameters);
  const double with_one_embedding = static_cast<double>(layout->element_count() - 32'000 * config_->model->width);
  EXPECT_NEAR(with_one_embedding, GetParam().named_parameters, 0.05 * GetParam().named_parameters);
  EXPECT_TRUE(CheckCapacity(*config_, *layout).ok()) << CheckCapacity(*config_, *layout);
}

TEST_P(PresetTest, IsWhatThePlannerTakesItFor) {
  const absl::StatusOr<Preset> preset = FindPreset(absl::AsciiStrToUpper(GetParam().name));
  ASSERT_TRUE(preset.ok()) << preset.status();
  const Layout layout = Layout::Cut(TransformerTensors(*config_->model), config_->fragments.cut).value();
  EXPECT_EQ(preset->model.parameters(), layout.element_count());
  EXPECT_EQ(preset->model.layers, config_->model->layers);
  EXPECT_EQ(preset->model.embedding_parameters, layout.tensors().front().ElementCount());
}

TEST_P(PresetTest, TrainsAsThePapersSay) {
  const Row& row = GetParam();
  EXPECT_EQ(config_->run.workers, 2);
  EXPECT_EQ(config_->method, "eager");
  EXPECT_EQ(config_->inner_steps, 30);
  EXPECT_FALSE(config_->lookahead.lambda.has_value());
  EXPECT_FALSE(config_->lookahead.shared_momentum);
  EXPECT_EQ(config_->outer.optimizer, "nesterov");
  EXPECT_EQ(config_->outer.rate, 0.4);
  EXPECT_EQ(config_->outer.momentum, 0.9);
  EXPECT_EQ(config_->wire.uplink, "e3m0");
  const InnerSection& inner = config_->inner;
  EXPECT_EQ(inner.optimizer, InnerAlgorithm::kAdamW);
  EXPECT_EQ(inner.beta1, 0.9);
  EXPECT_EQ(inner.beta2, 0.99);
  EXPECT_EQ(inner.warmup_steps, 1000);
  EXPECT_EQ(inner.final_ratio, 0.05);
  EXPECT_EQ(inner.clip, 1.0);
  const double rate = 22256 * std::pow(row.named_parameters, -0.8827) * std::pow(2, 0.2929);
  EXPECT_NEAR(inner.rate, rate, 0.02 * rate);
  const auto steps = static_cast<double>(config_->run.rounds * 30);
  EXPECT_NEAR(inner.weight_decay * steps, 1, 0.005);
  const double step_tokens = 2.0 * inner.batch_size * 1024;
  EXPECT_NEAR(steps * step_tokens, row.tokens, 0.005 * row.tokens);
}

INSTANTIATE_TEST_SUITE_P(Files, PresetTest, ::testing::ValuesIn(kRows),
                         [](const auto& instance) { return instance.param.name; });

TEST(PresetsTest, EveryFileHasARow) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
    files.push_back(entry.path().filename());
  }
  std::vector<std::string> rows;
  for (const Row& row : kRows) {
    rows.push_back(row.name + ".yaml");
  }
  EXPECT_THAT(files, ::testing::UnorderedElementsAreArray(rows));
}

}  // namespace
}  // namespace diloco
