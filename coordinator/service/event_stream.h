// What has happened, and what happens, to one reader, as fast as that reads.
#pragma once

#include <cstdint>

#include "coordinator/service/stream.h"
#include "diloco/v1/admin.pb.h"

namespace diloco {

class EventStream final : public Stream<grpc::ServerWriteReactor<v1::WatchEventsResponse>> {
 public:
  EventStream(const ServiceWorld* world, grpc::CallbackServerContext* context);
  void Open(const v1::WatchEventsRequest& request);

 private:
  void OnWriteDone(bool ok) override;
  void OnClosed() override;
  void Pump();
  void PumpLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool follow_ = false;
  uint64_t after_ = 0;  // Number of the newest event that was sent.
  v1::WatchEventsResponse written_;
};

}  // namespace diloco
