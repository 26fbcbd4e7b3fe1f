// PURE: how long a round waits for the rest after its quorum, from how long earlier rounds had to.
//
// A fixed window is wrong in both directions: too short, and it drops work that was about to arrive; too long, and one
// dead worker holds everybody in every round. So the window follows what was seen: the median of the past rounds'
// waits plus kGraceSpreads times their spread. Both are robust: the spread is the median absolute deviation, scaled so
// that it estimates a normal distribution's standard deviation, and a round in which a link stood still for an hour
// moves neither. A round's wait is that for the last contribution of its own, late ones among them, so that a window
// that was too short finds out. Rounds whose rest never came say nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"

#include "common/base/clock.h"

namespace diloco {

inline constexpr double kGraceSpreads = 3;
// Rounds that are remembered, the newest.
inline constexpr int64_t kGraceRounds = 32;
// With fewer known waits among them the window is the cap.
inline constexpr size_t kLeastGraceWaits = 5;

// Of a grace window that adapts. floor <= cap.
struct AdaptiveGrace {
  absl::Duration floor;
  absl::Duration cap;
};

// How long a round waits after its quorum, and why so long.
struct GraceWindow {
  absl::Duration length;
  std::string basis;  // Of an adaptive one: "adaptive: median 3.0s, spread 0.4s, 12 rounds". Empty: it is fixed.
};

// What is remembered of one fragment's rounds. Times never go back.
class Arrivals {
 public:
  // The round's quorum is met from now on, perhaps again; what came before does not count.
  void NoteQuorum(int64_t round, MonotonicTime now);
  // A contribution of the round itself has come. Without effect while its quorum is not met, or when it is forgotten.
  void NoteContribution(int64_t round, MonotonicTime now);

  // Of a round, from the ones before it.
  GraceWindow Window(const AdaptiveGrace& grace, int64_t round) const;

 private:
  struct Round {
    MonotonicTime quorum_since;
    std::optional<absl::Duration> wait;  // For the last contribution so far; nullopt: none has come since.
  };
  std::map<int64_t, Round> rounds_;
};

}  // namespace diloco
