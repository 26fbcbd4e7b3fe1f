// The service's own topology, simulated: a star whose centre stores, merges and forwards. Pure.
//
//   worker --own link--> ingress --> merge --> egress --own link--> worker
//
// Each worker computes one inner step after the other. Where the rounds of some fragments end, it puts their outer
// gradients into its upload queue and goes on, unless an average that has to be applied there has not arrived: then it
// waits, before or after it puts them there. A worker sends fragment after fragment; the coordinator merges a fragment when the last worker's part is there
// and then sends the average to everyone. Transfers that go on at once share the coordinator's ingress and egress
// evenly, as far as the workers' own links let them (max-min fair). Latency is added to every transfer.
//
// Left out: the worker's own encoding and decoding, TCP's ramp and losses, control traffic, framing (about 2 %), steps
// of different length.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace diloco {

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// The links of workers that are alike.
struct StarLink {
  int workers = 1;
  double up = kUnlimited;      // Bytes a second, (0, kUnlimited].
  double down = kUnlimited;    // Likewise.
  double latency_seconds = 0;  // One way, >= 0.
};

// The same workers, with those that are alike together, in the order in which they first appear.
std::vector<StarLink> GroupAlike(const std::vector<StarLink>& links);

struct StarFragment {
  double up_bytes = 0;       // Of one worker's outer gradient, encoded.
  double down_bytes = 0;     // Of the average, encoded.
  double merge_seconds = 0;  // Averaging all workers' parts; one fragment at a time.
  int64_t offset = 0;        // Its rounds end so many inner steps after those of offset 0. [0, inner_steps).
};

struct StarRun {
  std::vector<StarLink> links;
  double ingress = kUnlimited;  // Of the coordinator, bytes a second, (0, kUnlimited].
  double egress = kUnlimited;
  double step_seconds = 0;  // > 0.
  int64_t inner_steps = 1;
  int64_t overlap = 0;  // Inner steps from the end of a fragment's round until its average is applied.
  int max_late = 0;     // Rounds by which an average may be later than that before a worker waits.
  // Whether outer gradients go before the wait of their step, as they must where it is for their own average, or after.
  bool sends_first = true;
  std::vector<StarFragment> fragments;
};

// Utilization that no schedule can exceed: all bytes of a round have to pass every link, and the merge, in a round's
// time. 1 when compute is what takes longest.
struct SteadyBound {
  double utilization = 1;
  std::string_view bottleneck = "compute";  // Or "up", "down", "ingress", "egress", "merge".
};
SteadyBound SteadyBoundOf(const StarRun& run);

struct StarOutcome {
  double utilization = 0;      // Compute time / wall time of the slowest worker, (0, 1].
  double staleness_steps = 0;  // Mean, from the end of a fragment's round until its average is applied.
};

// Of a run without an end: the first rounds are left out, and the utilization never exceeds the steady bound, which a
// finite window can by filling queues. O(rounds * fragments * workers of different links).
StarOutcome SimulateStar(const StarRun& run);

}  // namespace diloco
