// What a run would take on the service's own topology: for each method the utilization, the link that a utilization
// takes, staleness and bytes. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/codec/codec.h"
#include "coordinator/plan/star_simulator.h"

namespace diloco {

struct PlanModel {
  int layers = 0;                    // [1, kMaxPlanLayers], all alike.
  int64_t layer_parameters = 0;      // >= 1.
  int64_t embedding_parameters = 0;  // Before the layers; 0: counted with the layers.
  int64_t head_parameters = 0;       // Behind them; likewise.
  double step_seconds = 0;           // Of one inner step, compute alone. > 0.

  int64_t parameters() const { return layers * layer_parameters + embedding_parameters + head_parameters; }
};

inline constexpr int kMaxPlanLayers = 4096;

struct PlanNetwork {
  std::vector<StarLink> links;  // 1 to kMaxWorkers workers in all.
  double ingress = kUnlimited;  // Of the coordinator, bytes a second.
  double egress = kUnlimited;
  // Float32 bytes of all contributions together that the coordinator averages in a second. One core does about 1e10
  // (tests/benchmarks/RESULTS.md).
  double merge_rate = kUnlimited;
};

struct PlanChoice {
  std::string method;               // A name of PlanMethodNames().
  int64_t inner_steps = 30;         // H; `data-parallel` has 1 whatever this says.
  int64_t overlap_steps = 1;        // `streaming`: inner steps, [0, H).
  int overlap_rounds = 1;           // `eager`, `delayed`: overlap / H, [1, kMaxOverlapRounds].
  int max_late = 1;                 // `eager`: rounds, [0, kMaxLate].
  int fragments = 8;                // At most, of methods that send all fragments at once. [1, kMaxFragments].
  int layers_each = 3;              // `streaming`: layers of a fragment, strided. [1, kMaxPlanLayers].
  const Codec* uplink = nullptr;    // Default: bf16 for `data-parallel`, else e3m0.
  const Codec* downlink = nullptr;  // Default: bf16 for `data-parallel`, else int8.
};

// The methods of common/outer/method.h.
std::vector<std::string> PlanMethodNames();

// Utilizations that PlanFor finds the link for.
inline constexpr std::array<double, 5> kPlanTargets = {0.50, 0.80, 0.90, 0.95, 0.99};

struct MethodPlan {
  std::string method;
  int64_t inner_steps = 0;
  int64_t overlap = 0;  // Inner steps.
  int max_late = 0;
  const Codec* uplink = nullptr;
  const Codec* downlink = nullptr;
  StarRun run;  // What was simulated.

  StarOutcome outcome;  // Over the links as given.
  SteadyBound bound;    // Likewise.
  double rounds_per_day = 0;
  double upload_bytes = 0;    // A worker and round, encoded.
  double download_bytes = 0;  // Likewise.
  double steady_link = 0;     // Bytes a second, each way, that every worker's link needs at least to keep up.
  // Bytes a second, each way, of every worker's link for each of kPlanTargets, latency and the coordinator's links as
  // given; nullopt where no link is enough.
  std::array<std::optional<double>, kPlanTargets.size()> needed_link;
};

// Errors, kInvalidArgument: an unknown method, an overlap of `streaming` that is not below H.
absl::StatusOr<MethodPlan> PlanFor(const PlanModel& model, const PlanNetwork& network, const PlanChoice& choice);

// Utilization of `run` with every worker's link carrying `rate` bytes a second each way.
double UtilizationAt(StarRun run, double rate);

}  // namespace diloco
