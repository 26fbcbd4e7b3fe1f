#include "coordinator/plan/presets.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "coordinator/plan/paper_tables.h"
#include "coordinator/plan/transformer_model.h"

namespace diloco {
namespace {

constexpr int64_t kVocabulary = 32'000;
constexpr int64_t kHeadWidth = 64;

constexpr PlanModel Transformer(int layers, int64_t width, double step_seconds) {
  PlanModel model = TransformerModel({.layers = layers,
                                      .width = width,
                                      .head_width = kHeadWidth,
                                      .feed_forward = 4 * width,
                                      .vocabulary = kVocabulary});
  model.step_seconds = step_seconds;
  return model;
}

constexpr PlanModel Paper(const PaperModel& model) {
  return {.layers = model.layers,
          .layer_parameters = static_cast<int64_t>(model.parameters) / model.layers,
          .step_seconds = model.step_seconds};
}

constexpr Preset kPresets[] = {
    {.name = "35M", .model = Transformer(6, 512, 0)},       {.name = "100M", .model = Transformer(9, 768, 0)},
    {.name = "200M", .model = Transformer(12, 1024, 0)},    {.name = "300M", .model = Transformer(15, 1280, 0)},
    {.name = "500M", .model = Transformer(18, 1536, 0.08)},  // Eager Updates, table 2.
    {.name = "1B", .model = Transformer(24, 2048, 0.1)},     // Table 5.
    {.name = "4B", .model = Transformer(36, 3072, 0)},      {.name = "1B-paper", .model = Paper(kPaperModels[0])},
    {.name = "10B-paper", .model = Paper(kPaperModels[1])}, {.name = "100B-paper", .model = Paper(kPaperModels[2])},
};

}  // namespace

absl::Span<const Preset> Presets() { return kPresets; }

absl::StatusOr<Preset> FindPreset(std::string_view name) {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return preset;
    names.emplace_back(preset.name);
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("preset \"%s\" is not known; use one of %s, or --layers and "
                      "--parameters",
                      name, absl::StrJoin(names, ", ")));
}

}  // namespace diloco
