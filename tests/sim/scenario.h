// What one seed stands for: a run's configuration, its workers, the network, and which faults there are. Everything is
// drawn from the seed; each kind of fault is there or not, so that their combinations are met, few at a time or many.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "common/config/run_config.h"
#include "tests/sim/coordinator_node.h"
#include "tests/sim/network.h"
#include "tests/sim/random.h"
#include "tests/sim/service.h"
#include "tests/sim/shims.h"
#include "tests/sim/worker_node.h"

namespace diloco::sim {

enum class Fault {
  kCoordinatorAtPoint,  // It dies at any crash point.
  kCoordinatorKilled,   // At any time.
  kCoordinatorStopped,  // As by SIGSTOP, at times for longer than the lease.
  kWorkerKilled,        // And comes back as a new incarnation.
  kWorkerStopped,
  kWorkerCut,  // From the network.
  kRegionCut,
  kSlowReader,
  kDiskFull,
  kDiskErrors,
  kDrain,               // An operator's; the worker comes back later.
  kEvict,               // Let in again after a while.
  kWorkerSuspended,     // As by SIGTERM; it comes back.
  kWorkerAtCheckpoint,  // It dies in the midst of writing one.
  kCheckpointDamaged,   // A worker's newest.
  kPause,               // And lets the run go on again.
  kSteer,               // Sets a rate or the quorum, makes the run longer, and now and then stops it.
  kDiskLost,            // The coordinator's, or it comes back with an older copy of it.
};
// Those that any seed may draw. kDiskLost is only for runs whose workers are all needed and all stay: one that lost its
// disk while those were away who held more would begin anew.
inline constexpr int kFaults = 17;

struct Scenario {
  uint64_t seed = 0;
  std::string yaml;
  RunConfig config;
  struct Worker {
    WorkerNode::Options options;
    absl::Duration starts_at;
    int region = 0;
  };
  std::vector<Worker> workers;  // run.workers of them, then those that join in mid-run.
  LinkFaults link;
  Service::Options service;
  absl::Duration disk_time;
  absl::Duration pool_time;

  std::vector<Fault> faults;
  absl::Duration fault_every;  // On average, while there are faults.
  absl::Duration faults_until;
  bool power_cuts = false;  // Deaths take what is not synced along.

  // By then a run has ended that had no faults any more from faults_until on.
  absl::Duration Deadline() const;
};

Scenario DrawScenario(uint64_t seed);
// Of a configuration that is given: `count` workers, no faults.
Scenario CalmScenario(uint64_t seed, const std::string& yaml, int count);
// Short, and with everything in it that a coordinator does: where crash points are looked for.
Scenario BusyScenario(uint64_t seed);
// A week of simulated time, and some fault every few minutes.
Scenario WeekScenario(uint64_t seed);

}  // namespace diloco::sim
