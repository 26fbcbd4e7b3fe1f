// Chunks of contributions in, acknowledgements out, in the order in which the driver gives them. A chunk that was
// damaged on its way is counted and not answered: the sender sends it again. At most kMaxUploadsInFlight chunks are
// under way between reading and the written answer; beyond that the stream is not read, and the peer's flow control
// holds the rest.
#pragma once

#include <deque>

#include "coordinator/service/stream.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {

class UploadStream final : public Stream<grpc::ServerBidiReactor<v1::UploadRequest, v1::UploadResponse>> {
 public:
  UploadStream(const ServiceWorld* world, grpc::CallbackServerContext* context);
  void Open();
  // Takes no more chunks; ends when those under way are answered.
  void Drain() override;

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void Take();
  void Answer(absl::StatusOr<v1::UploadResponse> response);
  // Reads, writes or ends: whatever can go on now.
  void AdvanceLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  v1::UploadRequest request_;
  bool told_corrupt_ = false;  // Of the reading side.
  v1::UploadResponse written_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;  // request_ belongs to gRPC, or is being taken.
  bool no_more_ ABSL_GUARDED_BY(mutex_) = false;  // The peer has ended its side.
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<v1::UploadResponse> answers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace diloco
