// A worker's session: heartbeats go to the driver, directives come back. A directive is a state, so one that waits to
// be written gives way to a newer one; when the coordinator stops it is still written, then the session ends.
#pragma once

#include <optional>

#include "coordinator/service/stream.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {

class SessionStream final : public Stream<grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse>> {
 public:
  SessionStream(const ServiceWorld* world, grpc::CallbackServerContext* context);
  void Open();
  void Drain() override;

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnClosed() override;
  void Send(v1::SessionResponse response);
  void AdvanceLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Read();
  // The message in request_.
  absl::Status Check() const;

  Driver::SessionToken token_ = 0;
  v1::SessionRequest request_;
  std::optional<v1::SessionResponse> next_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  v1::SessionResponse written_;
};

}  // namespace diloco
