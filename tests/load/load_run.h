// One run of a coordinator and many synthetic workers on this machine, and what it took.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "tests/support/process_facts.h"

namespace diloco::testing {

struct LoadOptions {
  int workers = 64;  // All in one process, with the thread counts of as many programs.
  int64_t rounds = 20;
  int inner_steps = 10;
  absl::Duration step_time = absl::Milliseconds(20);  // At least.
  int64_t elements = 100'000;                         // Parameters.
  int tensors = 8;
  int fragments = 4;
  std::string uplink = "e3m0";
  std::string downlink = "int8";
};

struct LoadReport {
  absl::Duration training;  // From round 0's opening until the end record.
  int64_t rounds_committed = 0;
  int64_t merged = 0;  // Contributions, over all fragments of the newest rounds that the coordinator lists.
  int64_t rounds_listed = 0;
  // Payload, over all workers, as the coordinator counts it.
  int64_t received_bytes = 0;
  int64_t sent_bytes = 0;
  double coordinator_cpu_seconds = 0;
  double utilization = 0;  // Mean of the workers'.
  int64_t reconnects = 0;  // Of all workers.
  // The most that was seen.
  ProcessFacts coordinator;
  ProcessFacts workers;  // Of their process.
};

// Errors: what did not start or end well, with logs.
absl::StatusOr<LoadReport> RunLoad(const LoadOptions& options);

}  // namespace diloco::testing
