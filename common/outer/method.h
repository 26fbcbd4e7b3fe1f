// The methods: one loop, and every method is a row of one table. Nothing else tells methods apart.
//
//   At a step, outer gradients are taken first, then averages are applied.
//   outer gradient = anchor - theta at the boundary (old minus new, so it is a descent "gradient").
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/types/span.h"

namespace diloco {

// What a worker contributes at a boundary.
enum class Payload {
  kOuterGradient,
  // The gradient of its mean loss, not clipped, at the consensus: H is 1, there is one fragment, and the `inner`
  // section describes the outer optimizer, which takes the place of an inner one.
  kGradient,
};

// What an outer gradient is measured from.
enum class Anchor {
  kConsensus,  // The consensus that theta was last set from.
  kOwn,        // The worker's own theta at the round's start.
};

// What theta becomes once averages are applied.
enum class AfterBoundary {
  kConsensus,  // s.
  kLookahead,  // The consensus plus the outer steps of own contributions that are still on their way.
  kMix,        // mixing * theta + (1 - mixing) * s, `overlap` inner steps after the boundary.
  // As kLookahead with lambda = alpha and own momentum, not from the consensus but from a private (s, b), which steps
  // on (1 - alpha) * average + alpha * own contributions that it merged. Replicas drift apart.
  kPrivateLookahead,
};

// How long after its boundary an average is applied.
enum class Overlap {
  kNone,    // 0: the boundary waits for it.
  kSteps,   // 0 to H - 1, default 1.
  kRounds,  // A multiple of H, default H.
};

struct Method {
  std::string_view name;
  Payload payload;
  Anchor anchor;
  AfterBoundary after;
  Overlap overlap;
  int default_max_late;  // Rounds. Methods whose default is 0 allow nothing else.
  std::string_view default_optimizer;
  std::string_view default_uplink;  // Codecs.
  std::string_view default_downlink;
  std::string_view source;
};

// True when theta after a boundary holds own contributions that no average settled yet: the outer optimizer is linear,
// or the momentum of the look-ahead shared.
inline bool LooksAhead(const Method& method) {
  return method.after == AfterBoundary::kLookahead || method.after == AfterBoundary::kPrivateLookahead;
}

// Whether a worker hands over its outer gradient before it has the averages of the same stop, because the round's own
// average is one of them. Else it hands it over afterwards: its average, should it be back at once, is not for this
// stop.
inline bool HandsOverFirst(const Method& method) { return method.overlap != Overlap::kRounds; }

// All methods, in the order in which help texts list them.
absl::Span<const Method> Methods();

// nullptr when there is no such method.
const Method* FindMethod(std::string_view name);

}  // namespace diloco
