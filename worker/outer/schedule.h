// PURE: which rounds end when, what a boundary may and must apply, and where a worker goes on. Rounds follow from the
// step: step = round * H + i.
#pragma once

#include <cstdint>

#include "common/config/run_config.h"

namespace diloco {

// What a boundary asks of the consensus, in versions (applied global deltas).
struct BoundaryPlan {
  // Averages up to this version are applied if they are there, not later ones ("not earlier").
  int64_t wanted = 0;
  // The boundary waits until this version has arrived.
  int64_t required = 0;
};

class Schedule {
 public:
  explicit Schedule(const RunConfig& config);

  int64_t inner_steps() const { return inner_steps_; }
  int64_t rounds() const { return rounds_; }

  // The boundary that ends `round`. `published`: newest version that has been received whole. When the round has
  // closed without this worker (published > round) it applies everything.
  BoundaryPlan Plan(int64_t round, int64_t published) const;

  // The round to train in after the boundary of `round`: the next one, or the oldest open one when that is later.
  int64_t NextRound(int64_t round, int64_t published) const;

  // Version from which a member whose first round is `first_round` may start training.
  int64_t StartVersion(int64_t first_round) const;

 private:
  int64_t inner_steps_;
  int64_t rounds_;
  int64_t overlap_rounds_;
  int64_t max_late_;
};

}  // namespace diloco
