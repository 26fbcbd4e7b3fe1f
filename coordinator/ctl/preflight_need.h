// What a run needs of a worker's link, and what it would come to over a link that was measured. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "common/config/run_config.h"
#include "diloco/v1/admin.pb.h"

namespace diloco {

struct MeasuredLink {
  double up = 0;    // Bytes a second.
  double down = 0;  // Likewise.
  double round_trip_seconds = 0;
};

struct LinkNeed {
  double up = 0;           // Bytes a second that each direction has to carry for a worker never to fall behind.
  double down = 0;         // Likewise.
  double utilization = 0;  // With every worker on a link like the one that was measured, [0, 1].
  // Bytes a second each way with which utilization is kUsefulUtilization; nullopt: no link is enough.
  std::optional<double> useful_link;

  bool MetBy(const MeasuredLink& link) const { return link.up >= up && link.down >= down; }
};
inline constexpr double kUsefulUtilization = 0.95;

// `parameters`: of the model, > 0. `step_seconds`: of one inner step, compute alone, > 0.
// Errors, kInvalidArgument: a configuration that the planner does not take.
absl::StatusOr<LinkNeed> NeedOf(const RunConfig& config, int64_t parameters, double step_seconds,
                                const MeasuredLink& link);

// Of the run's model, from what its configuration says; nullopt: another trainer's.
std::optional<int64_t> ParametersOf(const RunConfig& config);

// Seconds that an inner step computes, of the fastest worker that has reported; nullopt: none has.
std::optional<double> StepSecondsOf(const v1::ListWorkersResponse& workers);

}  // namespace diloco
