// From what the store recovered to what the driver starts with.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/base/digest.h"
#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "common/merge/merge.h"
#include "common/outer/outer_optimizer.h"
#include "coordinator/driver/consensus_keeper.h"
#include "coordinator/round/round_machine.h"
#include "coordinator/store/store.h"

namespace diloco {

struct RecoveredRun {
  Layout layout;
  RecoveredRounds rounds;
  std::shared_ptr<ConsensusArrays> arrays;              // At the newest whole round; nullptr: not seeded.
  std::vector<Digest> digests;                          // Of `arrays`, by fragment.
  std::map<std::string, std::vector<int64_t>> applied;  // Settled marks of what `arrays` contain.
  int64_t snapshot_version = 0;
  absl::Span<const float> residual;  // Of the snapshot, in `recovered`; empty: it has none.
};

// Whether a run that was started with `stored` may go on with `current`.
// Errors, kFailedPrecondition: another run, or another value of what its workers agree on for its whole length: seed,
// method and its settings, outer and inner optimizer, weights, what the wire carries, fragments, model. Rates, the
// `rounds` and `eval` sections, the length of the run and the limits of connections may differ.
absl::Status CheckSameRun(const RunConfig& stored, const RunConfig& current);

// Cuts the layout, replays the global deltas onto the snapshot in whole rounds, and checks each consensus digest that
// the snapshot and the commit records hold. `recovered.run` is there.
// Errors: kFailedPrecondition: the layout comes out with another digest; kDataLoss: damaged or inconsistent content.
absl::StatusOr<RecoveredRun> RebuildRun(const RecoveredState& recovered, const RunConfig& config,
                                        const ParallelFor& parallel_for);

}  // namespace diloco
