// PURE: what a worker sends that gives its consensus to a coordinator which lost its own.
#pragma once

#include <string>

#include "diloco/v1/worker.pb.h"
#include "worker/sync/sync_core.h"

namespace diloco {

// `identity`, which names run, worker, incarnation and layout, with all that is said of the consensus besides its
// bytes.
v1::SeedRequest DescribeConsensus(v1::SeedRequest identity, const FullConsensus& consensus);
// The parameters and outer state arrays of each fragment, as snapshots have them.
std::string SerializeConsensus(const FullConsensus& consensus);

}  // namespace diloco
