#include "common/outer/method.h"

namespace diloco {
namespace {

constexpr Method kMethods[] = {
    {.name = "eager",
     .anchor = Anchor::kOwn,
     .after = AfterBoundary::kLookahead,
     .overlap = Overlap::kRounds,
     .default_max_late = 1,
     .source = "Eager Updates, arXiv 2502.12996, algorithm 3"},
    {.name = "delayed",
     .anchor = Anchor::kConsensus,
     .after = AfterBoundary::kConsensus,
     .overlap = Overlap::kRounds,
     .default_max_late = 0,
     .source = "Eager Updates, arXiv 2502.12996, algorithm 2"},
    {.name = "diloco",
     .anchor = Anchor::kConsensus,
     .after = AfterBoundary::kConsensus,
     .overlap = Overlap::kNone,
     .default_max_late = 0,
     .source = "DiLoCo, arXiv 2311.08105, algorithm 1"},
    {.name = "streaming",
     .anchor = Anchor::kConsensus,
     .after = AfterBoundary::kMix,
     .overlap = Overlap::kSteps,
     .default_max_late = 0,
     .source = "Streaming DiLoCo, arXiv 2501.18512, algorithm 2"},
};

}  // namespace

absl::Span<const Method> Methods() { return kMethods; }

const Method* FindMethod(std::string_view name) {
  for (const Method& method : kMethods) {
    if (method.name == name) return &method;
  }
  return nullptr;
}

}  // namespace diloco
