// The train simulator: all workers of a run in one thread, without a network. Every worker is the Replica and the
// FragmentOuter that a worker process has; contributions are encoded, merged and published by the code that the service
// uses. So the consensus is bit for bit the service's with a fixed schedule, the same seeds and trainers: every average
// is applied at the earliest stop that may, as if `max_late` were 0 and the quorum all, and nothing is ever late.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/base/digest.h"
#include "common/codec/codec.h"
#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "worker/trainer/trainer.h"

namespace diloco {

struct SimulatedWorker {
  std::string id;
  std::unique_ptr<Trainer> trainer;
};

// All fragments of the consensus at one version, when the last of them has reached it.
struct SimulationReport {
  int64_t version = 0;
  int64_t step = 0;                          // Inner steps done, of each worker.
  uint64_t tokens = 0;                       // Trained on so far, by all workers together.
  std::optional<EvaluationReport> held_out;  // Of the first worker's trainer; nullopt: it has no held-out data.
  double training_loss = 0;                  // Mean over workers and steps since the last report.
  // How far apart the replicas are: the largest L2 distance of a worker's parameters from the mean of all workers',
  // over the L2 norm of that mean.
  double replica_distance = 0;
  std::vector<Digest> digests;  // Of the consensus, by fragment.
};

// For one thread.
class TrainSimulator {
 public:
  struct Options {
    const std::atomic<bool>* interrupt = nullptr;  // Set: Run ends with kCancelled. May be null.
    // Each multiple of eval.every versions and the last one, `run.rounds`. An error ends the run.
    std::function<absl::Status(const SimulationReport&)> on_report;
  };

  // `workers` are run.workers many with distinct names, in the order in which they were named, the first evaluates and
  // seeds. `config` outlives the object. Errors: of the layout.
  static absl::StatusOr<std::unique_ptr<TrainSimulator>> Create(Options options, const RunConfig* config,
                                                                std::vector<SimulatedWorker> workers);
  ~TrainSimulator();

  // The whole run; once. Errors: kCancelled; of a trainer, of on_report.
  absl::Status Run();

 private:
  class Worker;
  // A global delta.
  struct Delta;
  struct Fragment;

  TrainSimulator(Options options, const RunConfig* config, Layout layout);
  absl::Status Begin();
  absl::Status Step();
  // The stops of all workers at this step, which are the same ones: they are in lockstep.
  absl::Status StopFragments();
  absl::Status StopTogether();
  // A round of one fragment: contributions, average, global delta.
  absl::Status Exchange(size_t stop);
  absl::Status ApplyNext(int fragment);
  // Everything that is held back, version by version.
  absl::Status ApplyRest();
  absl::Status MaybeReport();
  absl::StatusOr<double> ReplicaDistance();

  const Options options_;
  const RunConfig& config_;
  const Layout layout_;
  const Codec& uplink_;
  const Codec& downlink_;

  std::vector<std::unique_ptr<Worker>> workers_;  // By id, as an average sums them.
  Worker* evaluator_ = nullptr;
  std::vector<Fragment> fragments_;

  int64_t reported_version_ = 0;
  uint64_t tokens_ = 0;
  double loss_sum_ = 0;  // Since the last report.
  int64_t losses_ = 0;
};

}  // namespace diloco
