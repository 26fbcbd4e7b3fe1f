// The papers' models by name, so that a plan needs only a word for one.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "coordinator/plan/plan.h"

namespace diloco {

struct Preset {
  std::string_view name;
  PlanModel model;  // step_seconds is 0 where no paper states one.
};

// 35M to 4B: this project's transformer (worker/trainer) in the papers' shapes, vocabulary 32,000, a feed-forward block
// four times the width, heads 64 wide (Eager Updates, arXiv 2502.12996; Streaming DiLoCo, arXiv 2501.18512). Then, as
// 1B-paper to 100B-paper, what the papers' bandwidth tables are computed for: a round number of parameters, all in
// layers.
absl::Span<const Preset> Presets();

// Errors: kInvalidArgument, with the names that there are.
absl::StatusOr<Preset> FindPreset(std::string_view name);

}  // namespace diloco
