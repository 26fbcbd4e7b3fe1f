// Sends the initial parameters of a run, or the consensus to a coordinator that lost it.
#pragma once

#include <grpcpp/client_context.h>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "common/layout/layout.h"
#include "common/outer/outer_optimizer.h"
#include "diloco/v1/worker.grpc.pb.h"
#include "worker/sync/sync_core.h"

namespace diloco {

// `identity`: run, worker, incarnation and layout digest; the rest is filled in. Returns once the parameters are
// durable. Shapes: parameters [layout.element_count()], the flat vector. Errors: as the Seed call says, and kDataLoss
// when the coordinator's digests are not those of these parameters.
absl::Status SendSeed(v1::WorkerService::Stub* stub, const v1::SeedRequest& identity, const Layout& layout,
                      const OuterOptimizer& optimizer, absl::Span<const float> parameters);

// The same with a consensus. `context` may be cancelled from another thread.
absl::Status SendConsensus(v1::WorkerService::Stub* stub, grpc::ClientContext* context, const v1::SeedRequest& identity,
                           const FullConsensus& consensus);

}  // namespace diloco
