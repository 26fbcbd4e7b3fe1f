// The papers' published tables of bandwidth, as printed, with the setting of the simulator that stands for each row.
#pragma once

#include <array>
#include <string_view>

#include "absl/types/span.h"

#include "coordinator/plan/paper_simulator.h"

namespace diloco {

inline constexpr std::array<PaperModel, 3> kPaperModels = {{
    {.name = "1B", .layers = 24, .step_seconds = 0.1, .parameters = 1e9},
    {.name = "10B", .layers = 48, .step_seconds = 0.8, .parameters = 1e10},
    {.name = "100B", .layers = 108, .step_seconds = 4.9, .parameters = 1e11},
}};

struct PaperRow {
  std::string_view table;   // Where it is printed.
  std::string_view method;  // What is exchanged, when, and in how many bits.
  PaperMethod setting;
  // Gbit/s that the paper prints, by kPaperModels and kPaperTargets.
  std::array<std::array<double, kPaperTargets.size()>, kPaperModels.size()> published;
};

// Data-parallel first, and last the row of the headline: eager, H = 100, four bits.
absl::Span<const PaperRow> PaperRows();

}  // namespace diloco
