// A run of the service over links of limited rate, as fast as it goes: a coordinator process and workers on the real
// client, whose steps take a fixed time and no processor, each behind a proxy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace diloco::testing {

struct LimitedRun {
  std::string method = "eager";
  int64_t overlap = 0;  // Inner steps; 0: the method's default.
  int max_late = 0;
  int64_t inner_steps = 30;
  int64_t step_milliseconds = 100;
  int64_t rounds = 12;
  // Rounds before this one are warm-up: seed, snapshot, full buckets at the proxies. At most rounds - 2.
  int64_t first_measured = 2;
  uint64_t link_rate = 0;  // Of each worker's link, bytes a second each way.

  int workers = 2;
  int64_t elements = 1 << 20;
  int fragments = 8;  // Of equal size.
  std::string uplink = "e3m0";
  std::string downlink = "int8";
};

// Of one worker, from the first measured round to the one before the last, which ends for all fragments at once.
struct LimitedFigures {
  double wall_seconds = 0;
  double blocked_seconds = 0;
  double steps = 0;
  double bytes_per_round = 0;  // Up and down, framing included.

  double utilization() const { return 1 - blocked_seconds / wall_seconds; }
  double step_seconds() const { return (wall_seconds - blocked_seconds) / steps; }
};

// The figures of each worker, from a run in this process's temporary folder. Errors: those of the run.
absl::StatusOr<std::vector<LimitedFigures>> RunLimited(const LimitedRun& run);

}  // namespace diloco::testing
