// One measurement of the way between a caller and the coordinator. It never reaches the driver; one is open at a time,
// with a bound on its time and bytes, so that a run goes on as it would.
#pragma once

#include <cstdint>

#include "common/base/clock.h"
#include "coordinator/service/stream.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {

class ProbeStream final : public Stream<grpc::ServerBidiReactor<v1::ProbeRequest, v1::ProbeResponse>> {
 public:
  ProbeStream(const ServiceWorld* world, grpc::CallbackServerContext* context);
  void Open();

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnEndLocked() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts a request. Errors: its form, another run, more bytes than a probe may move.
  absl::Status Take();

  bool admitted_ = false;            // It is the one that is open.
  Watchdog::Token last_moment_ = 0;  // When it ends, whatever the caller does.
  uint64_t bytes_ = 0;               // Both ways.
  v1::ProbeRequest request_;
  v1::ProbeResponse response_;
};

}  // namespace diloco
