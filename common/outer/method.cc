#include "common/outer/method.h"

namespace diloco {
namespace {

constexpr Method kMethods[] = {
    {.name = "eager",
     .payload = Payload::kOuterGradient,
     .anchor = Anchor::kOwn,
     .after = AfterBoundary::kLookahead,
     .overlap = Overlap::kRounds,
     .default_max_late = 1,
     .default_optimizer = "nesterov",
     .default_uplink = "e3m0",
     .default_downlink = "int8",
     .source = "Eager Updates, arXiv 2502.12996, algorithm 3"},
    {.name = "delayed",
     .payload = Payload::kOuterGradient,
     .anchor = Anchor::kConsensus,
     .after = AfterBoundary::kConsensus,
     .overlap = Overlap::kRounds,
     .default_max_late = 0,
     .default_optimizer = "nesterov",
     .default_uplink = "e3m0",
     .default_downlink = "int8",
     .source = "Eager Updates, arXiv 2502.12996, algorithm 2"},
    {.name = "diloco",
     .payload = Payload::kOuterGradient,
     .anchor = Anchor::kConsensus,
     .after = AfterBoundary::kConsensus,
     .overlap = Overlap::kNone,
     .default_max_late = 0,
     .default_optimizer = "nesterov",
     .default_uplink = "e3m0",
     .default_downlink = "int8",
     .source = "DiLoCo, arXiv 2311.08105, algorithm 1"},
    {.name = "streaming",
     .payload = Payload::kOuterGradient,
     .anchor = Anchor::kConsensus,
     .after = AfterBoundary::kMix,
     .overlap = Overlap::kSteps,
     .default_max_late = 0,
     .default_optimizer = "nesterov",
     .default_uplink = "e3m0",
     .default_downlink = "int8",
     .source = "Streaming DiLoCo, arXiv 2501.18512, algorithm 2"},
    {.name = "blend",
     .payload = Payload::kOuterGradient,
     .anchor = Anchor::kOwn,
     .after = AfterBoundary::kPrivateLookahead,
     .overlap = Overlap::kRounds,
     .default_max_late = 0,
     .default_optimizer = "nesterov",
     .default_uplink = "e3m0",
     .default_downlink = "int8",
     .source = "alpha * own outer gradient + (1 - alpha) * the average before, which some read in Eager Updates, arXiv "
               "2502.12996"},
    {.name = "data-parallel",
     .payload = Payload::kGradient,
     .anchor = Anchor::kConsensus,
     .after = AfterBoundary::kConsensus,
     .overlap = Overlap::kNone,
     .default_max_late = 0,
     .default_optimizer = "adamw",
     .default_uplink = "bf16",
     .default_downlink = "bf16",
     .source = "the average gradient of every step, as DiLoCo, arXiv 2311.08105, compares with"},
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
