// The calls before training begins: unary, with retries until a deadline, and ended by an interrupt.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/base/clock.h"
#include "common/rpc/coordinator_link.h"
#include "diloco/v1/worker.grpc.pb.h"
#include "worker/client/backoff.h"
#include "worker/loop/worker_options.h"

namespace diloco {

// True when the same call may succeed later.
bool IsTransient(const absl::Status& status);

// Waits until `time`, while `check` is OK; otherwise returns what it says.
absl::Status Pause(const Clock& clock, MonotonicTime time, const std::function<absl::Status()>& check);

class Introduction {
 public:
  // `stub` is over a channel of `link`. The deadline of all calls together, options.connect_timeout, begins now. The
  // pointers outlive the object.
  Introduction(const WorkerOptions* options, const CoordinatorLink* link, const Clock* clock,
               v1::WorkerService::Stub* stub);

  // Errors: kUnavailable when the coordinator was not reached in time, kCancelled, what CoordinatorLink::Diagnose finds
  // to be wrong and time does not mend, or as the call says. A worker with a
  // checkpoint also tries again while its id is in use: that is the session of the process before, not yet over.
  absl::StatusOr<v1::DescribeRunResponse> Describe();
  absl::StatusOr<v1::JoinResponse> Join(const v1::JoinRequest& request);

 private:
  template <typename Request, typename Response, typename Start>
  absl::StatusOr<Response> Persist(const Request& request, const Start& start);
  template <typename Request, typename Response, typename Start>
  absl::StatusOr<Response> TryOnce(const Request& request, const Start& start);
  absl::Status CheckInterrupt() const;

  const WorkerOptions& options_;
  const CoordinatorLink& link_;
  const Clock& clock_;
  v1::WorkerService::Stub* const stub_;
  Backoff backoff_;
  const MonotonicTime deadline_;
};

}  // namespace diloco
