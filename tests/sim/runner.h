// Runs seeds one after the other, up to the first that breaks a rule, and says how to see it again.
#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/shims.h"

namespace diloco::sim {

struct RunnerOptions {
  uint64_t first_seed = 1;
  uint64_t seeds = 100;
  bool verbose = false;
  Shim shim = Shim::kNone;
};

struct RunnerResult {
  uint64_t seeds = 0;
  uint64_t events = 0;
  uint64_t global_deltas = 0;
  uint64_t contributions_merged = 0;
  uint64_t coordinator_deaths = 0;
  uint64_t disks_lost = 0;
  double simulated_seconds = 0;
  double seconds = 0;
  double coordinator_memory = 0;  // The most that one has held, as a share of what it may hold.
  double worker_memory = 0;
  uint64_t failed_seed = 0;
  std::string failure;  // Empty: no rule was broken. Else seed, time, rule, the last events and the command.

  std::string Summary() const;
};

RunnerResult RunSeeds(const RunnerOptions& options);

}  // namespace diloco::sim
