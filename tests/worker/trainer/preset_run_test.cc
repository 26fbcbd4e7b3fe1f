// The papers' smallest model takes real steps, in its preset's own configuration but for a small batch and little time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "common/schedule/inner_schedule.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"
#include "worker/trainer/torch_trainer.h"

namespace diloco {
namespace {

// Little-endian uint16: 64 tokens of a vocabulary of 32,000, in no order, the last of all among them.
std::string MadeUpTokens(int count) {
  std::string bytes;
  uint32_t state = 1;
  for (int i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    const uint32_t token = 31'999 - 499 * (state >> 26);
    bytes.push_back(static_cast<char>(token & 0xff));
    bytes.push_back(static_cast<char>(token >> 8));
  }
  return bytes;
}

TEST(PresetRunTest, LossOf35MFalls) {
  const std::string path = testing::SourcePath("deploy/presets/35m.yaml");
  auto config = ParseRunConfig(testing::ReadFile(path), path);
  ASSERT_TRUE(config.ok()) << config.status();
  config->inner.batch_size = 1;
  config->inner.accumulation = 1;
  config->inner.warmup_steps = 10;
  const testing::TempFolder folder;
  auto files = OpenDataFiles(folder.Write("tokens.bin", MadeUpTokens(20'000)), "");
  ASSERT_TRUE(files.ok()) << files.status();
  auto batches = Batches::Create(*std::move(files), *config, "east");
  ASSERT_TRUE(batches.ok()) << batches.status();
  auto made = MakeTorchTrainer(*config, *std::move(batches), {});
  ASSERT_TRUE(made.ok()) << made.status();
  Trainer& trainer = **made;
  const auto layout = Layout::Cut(trainer.Tensors(), config->fragments.cut);
  ASSERT_TRUE(layout.ok()) << layout.status();
  trainer.SetLayout(*layout);

  std::vector<double> losses;
  for (int64_t step = 0; step < 6; ++step) {
    const auto report = trainer.Step(step, InnerRate(*config, step));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->tokens, 1024u);
    ASSERT_TRUE(std::isfinite(report->loss)) << step;
    losses.push_back(report->loss);
  }
  EXPECT_NEAR(losses.front(), std::log(32'000.0), 0.3);
  EXPECT_LT(losses.back(), losses.front() - 0.5);
  std::vector<float> parameters(static_cast<size_t>(layout->element_count()));
  ASSERT_TRUE(trainer.ReadParameters(0, absl::MakeSpan(parameters)).ok());
  EXPECT_TRUE(std::all_of(parameters.begin(), parameters.end(), [](float value) { return std::isfinite(value); }));
}

}  // namespace
}  // namespace diloco
