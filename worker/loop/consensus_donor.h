// Gives this worker's consensus to a coordinator that lost it, from a thread of its own, again until it was taken.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "diloco/v1/worker.grpc.pb.h"
#include "worker/client/backoff.h"
#include "worker/sync/sync_core.h"

namespace diloco {

// Thread-safe.
class ConsensusDonor {
 public:
  // `identity`: run, worker, incarnation and layout digest. `clock` outlives the object.
  ConsensusDonor(v1::SeedRequest identity, std::shared_ptr<grpc::Channel> channel, const Backoff::Options& backoff,
                 const Clock* clock);
  // Cancels what is being sent.
  ~ConsensusDonor();

  // Who is asked for the consensus, by a call of `ask` that ends in Give; nullptr: nobody any more.
  void SetSource(std::function<void()> ask);
  // The coordinator wants it. Repeated as long as it does; ignored while it is under way, was taken, or has just
  // failed.
  void Want();
  void Give(FullConsensus consensus);

 private:
  void Run();

  const v1::SeedRequest identity_;
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
  const Clock* const clock_;

  Mutex mutex_;
  CondVar changed_;
  std::function<void()> ask_ ABSL_GUARDED_BY(mutex_);
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;  // Asked for, being sent, or taken.
  MonotonicTime retry_at_ ABSL_GUARDED_BY(mutex_);
  std::optional<FullConsensus> given_ ABSL_GUARDED_BY(mutex_);
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace diloco
