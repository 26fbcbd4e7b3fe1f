// Published global deltas to one subscriber. Messages are serialised once, by the driver; every stream sends slices of
// the same bytes.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <memory>

#include "coordinator/driver/delta_queue.h"
#include "coordinator/service/stream.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {

class SubscribeStream final : public Stream<grpc::ServerWriteReactor<grpc::ByteBuffer>> {
 public:
  SubscribeStream(const ServiceWorld* world, grpc::CallbackServerContext* context);
  void Open(const grpc::ByteBuffer& request);

 private:
  void OnWriteDone(bool ok) override;
  void OnClosed() override;
  void Pump();
  void PumpLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::shared_ptr<DeltaQueue> queue_;  // Set in Open.
  std::string worker_;                 // Likewise.
  grpc::ByteBuffer written_;
  // For the trace: what was written since the queue was empty last.
  uint64_t sent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  MonotonicTime sending_since_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace diloco
