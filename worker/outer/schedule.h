// PURE: when each fragment stops, what a stop applies, and where a worker goes on. Everything follows from the inner
// steps done.
//
//   A round r of a fragment with offset o ends when (r + 1) * H + o inner steps are done: its outer gradient is taken.
//   The last round of every fragment ends with the run, after rounds * H.
//   Its average is applied `overlap` inner steps later. Where that is a whole number of rounds k, this is when round
//   r + k ends; else it is a stop of its own, at the end of the run at the latest, before the last outer gradient.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/types/span.h"

#include "common/config/run_config.h"

namespace diloco {

// In the place of a round: none is left, as far as is known.
inline constexpr int64_t kNoRound = std::numeric_limits<int64_t>::max();

// One fragment at one inner step. Its outer gradient is taken first, then averages are applied.
struct Stop {
  int64_t step = 0;    // Inner steps done.
  int64_t round = 0;   // Of the fragment.
  bool takes = false;  // The round ends: the outer gradient is taken.
  bool sets = false;   // Theta is set from the averages that it may contain.

  friend bool operator==(const Stop&, const Stop&) = default;
};

// What a stop that sets asks of the consensus, in versions (applied global deltas).
struct StopPlan {
  // Averages up to this version are applied if they are there, not later ones ("not earlier").
  int64_t wanted = 0;
  // The stop waits until this version has arrived.
  int64_t required = 0;
};

class Schedule {
 public:
  // For a layout of so many fragments; FragmentOffsets(config, fragments) is OK.
  Schedule(const RunConfig& config, int fragments);

  int64_t inner_steps() const { return inner_steps_; }
  int64_t rounds() const { return rounds_; }
  int64_t steps() const { return rounds_ * inner_steps_; }

  // The run has another length from now on; stops that were asked for before are out of date, see Refit.
  void SetRounds(int64_t rounds) { rounds_ = rounds; }

  // The first stop of a fragment after `step` inner steps; it ends no round before `first_round`.
  std::optional<Stop> FirstAfter(int fragment, int64_t step, int64_t first_round) const;
  // The stop that follows, which ends no round before `first_round` either; nullopt: the run is over for this fragment.
  std::optional<Stop> Next(int fragment, const Stop& stop, int64_t first_round) const;

  // The first stop of a fragment that has done `step` inner steps, all stops up to there, and has ended its rounds from
  // `first_round` on before `untaken`. Where the next round is to be over by now, because the run was made shorter, it
  // ends at once.
  std::optional<Stop> Refit(int fragment, int64_t step, int64_t first_round, int64_t untaken) const;

  // A stop that sets in `round`. `published`: newest version that has been received. When the round has closed without
  // this worker (published > round) everything is applied.
  StopPlan Plan(int64_t round, int64_t published) const;

  // Inner steps from which a worker goes on that has done `step` of them: it jumps to the start of the oldest open
  // round when that is later. published: newest version received, by fragment.
  int64_t Resume(int64_t step, absl::Span<const int64_t> published) const;

  // Version that a fragment needs for training to begin at the start of `first_round`.
  int64_t StartVersion(int fragment, int64_t first_round) const;

 private:
  // Inner steps done when the round ends.
  int64_t End(int fragment, int64_t round) const;
  // The stop at which a round ends.
  Stop Ending(int fragment, int64_t round) const;
  // The stop at which a round's average is applied, where that is not the end of a round.
  std::optional<Stop> Setting(int fragment, int64_t round) const;

  int64_t inner_steps_;
  int64_t rounds_;
  int64_t overlap_;
  int64_t max_late_;
  std::vector<int64_t> offsets_;  // By fragment.
};

}  // namespace diloco
