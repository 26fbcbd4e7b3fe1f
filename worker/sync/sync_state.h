// What the sync thread holds between two events, as a resumed worker goes on from it: for checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/client/worker_status.h"
#include "worker/outer/fragment_outer.h"

namespace diloco {

// Averages that are held back are not part of it: a resumed worker receives them again.
struct SyncState {
  struct Fragment {
    FragmentOuter::State outer;
    int64_t stop = 0;             // The round whose stop sets theta next; kNoRound: there is none.
    std::vector<float> residual;  // Of the uplink's error feedback, [n]; empty: none yet.
  };
  // One that no global delta has settled, as encoded.
  struct Contribution {
    int fragment = 0;
    int64_t round = 0;
    double weight = 0;
    std::string encoded;
  };
  std::vector<Fragment> fragments;
  std::vector<Contribution> contributions;
  std::vector<RoundAbstention> abstentions;
};

}  // namespace diloco
