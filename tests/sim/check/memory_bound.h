// How much the processes of a cluster may hold at once. It follows from the configuration and the layout alone, and
// knows nothing of how the product keeps things; what is measured against it is each process's heap, tests/sim/heap.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/layout/layout.h"

namespace diloco::sim {

// One thing that is kept, and its bytes at most.
struct HeldThing {
  std::string what;
  int64_t bytes = 0;
};

// What there is besides the configuration.
struct ClusterSize {
  int workers = 1;     // That ever join.
  int64_t rounds = 0;  // Of the run, as long as it is ever made.
  int changes = 0;     // Of its settings, at most.
  uint64_t subscriber_queue_bytes = 0;
  uint64_t chunk_bytes = 0;  // The smallest that a worker cuts its contributions into.
};

std::vector<HeldThing> CoordinatorBound(const RunConfig& config, const Layout& layout, const ClusterSize& size);
std::vector<HeldThing> WorkerBound(const RunConfig& config, const Layout& layout, const ClusterSize& size);

// What was held, in bytes, and what may be.
struct MemoryUse {
  int64_t held = 0;
  int64_t bound = 1;
  double share() const { return static_cast<double>(held) / static_cast<double>(bound); }
};

int64_t TotalBytes(const std::vector<HeldThing>& held);
// One line each.
std::string DescribeBound(const std::vector<HeldThing>& held);

}  // namespace diloco::sim
