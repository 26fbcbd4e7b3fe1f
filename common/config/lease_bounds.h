// How short and how long rounds.heartbeat_interval and rounds.lease may be, in a configuration and from a peer.
#pragma once

#include "absl/time/time.h"

namespace diloco {

inline constexpr absl::Duration kShortestHeartbeat = absl::Milliseconds(10);
inline constexpr absl::Duration kLongestHeartbeat = absl::Hours(1);
inline constexpr absl::Duration kShortestLease = absl::Milliseconds(100);
inline constexpr absl::Duration kLongestLease = absl::Hours(24);

}  // namespace diloco
