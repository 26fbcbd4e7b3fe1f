// PURE: whether a round closes now, and why. One function for the machine, the log, the CLI and the page.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "common/base/clock.h"
#include "coordinator/round/arrivals.h"

namespace diloco {

// The facts about the oldest open round of a fragment.
struct RoundFacts {
  int quorum = 1;
  GraceWindow grace_window;
  MonotonicTime opened;
  std::optional<absl::Duration> timeout;      // After its opening, for the rest; never for the quorum.
  int live = 0;                               // Members that are alive, for the reason.
  std::vector<std::string> present;           // Distinct workers with a good contribution of this round.
  std::vector<std::string> abstained;         // Abstained or refused: an answer, though nothing to merge.
  std::vector<std::string> awaited;           // Members that are alive, owe a contribution and have not answered.
  std::vector<std::string> lost;              // Members that owe one and are lost.
  std::vector<std::string> done;              // Left, evicted, or draining: nothing more comes from them.
  std::vector<std::string> later;             // Members that are alive and start with a later round.
  std::optional<MonotonicTime> quorum_since;  // When quorum was reached.
};

struct Decision {
  bool close = false;
  std::string reason;                       // One sentence fragment, lower case, without a stop.
  std::optional<MonotonicTime> next_check;  // When time alone could change the decision.
};

// Workers that must be present. An abstention lowers the quorum by one: its worker was heard, and waiting for more from
// it would hold the round for ever. For the same reason a member that starts with a later round lowers it, but only
// where the others are too few. While anybody is awaited it stays at least 1, so that no round closes empty for haste.
int QuorumNeeded(const RoundFacts& facts);

// Closes when the quorum is met and nobody is awaited, or the grace window or the timeout is over. The reason names the
// rule and its numbers.
Decision Decide(const RoundFacts& facts, MonotonicTime now);

// Rounded up to 0.1 s, so that a wait that is not over never reads as 0.
std::string SecondsText(absl::Duration duration);

}  // namespace diloco
