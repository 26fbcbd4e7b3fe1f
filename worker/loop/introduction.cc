#include "worker/loop/introduction.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/rpc/status.h"
#include "worker/sync/exchange.h"

namespace diloco {

bool IsTransient(const absl::Status& status) { return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status); }

absl::Status Pause(const Clock& clock, MonotonicTime time, const std::function<absl::Status()>& check) {
  Mutex mutex;
  CondVar never;
  MutexLock lock(&mutex);
  while (clock.Now() < time) {
    DILOCO_RETURN_IF_ERROR(check());
    never.WaitUntil(&mutex, ToSteady(std::min(time, clock.Now() + kWaitSlice)));
  }
  return check();
}

Introduction::Introduction(const WorkerOptions* options, const CoordinatorLink* link, const Clock* clock,
                           v1::WorkerService::Stub* stub)
    : options_(*options),
      link_(*link),
      clock_(*clock),
      stub_(stub),
      backoff_(options->backoff),
      deadline_(clock->Now() + options->connect_timeout) {}

absl::StatusOr<v1::DescribeRunResponse> Introduction::Describe() {
  v1::DescribeRunRequest request;
  request.set_run_id(options_.run_id);
  request.set_protocol_version(kProtocolVersion);
  return Persist<v1::DescribeRunRequest, v1::DescribeRunResponse>(
      request, [this](auto... arguments) { stub_->async()->DescribeRun(arguments...); });
}

absl::StatusOr<v1::JoinResponse> Introduction::Join(const v1::JoinRequest& request) {
  while (true) {
    absl::StatusOr<v1::JoinResponse> response = Persist<v1::JoinRequest, v1::JoinResponse>(
        request, [this](auto... arguments) { stub_->async()->Join(arguments...); });
    if (!request.has_resumes() || !absl::IsAlreadyExists(response.status())) return response;
    const MonotonicTime retry_at = clock_.Now() + backoff_.Next();
    if (retry_at >= deadline_) return response;
    DILOCO_RETURN_IF_ERROR(Pause(clock_, retry_at, [this] { return CheckInterrupt(); }));
  }
}

template <typename Request, typename Response, typename Start>
absl::StatusOr<Response> Introduction::Persist(const Request& request, const Start& start) {
  while (true) {
    absl::StatusOr<Response> response = TryOnce<Request, Response>(request, start);
    if (response.ok() || !IsTransient(response.status())) {
      return response;
    }
    if (absl::IsUnavailable(response.status())) {
      // gRPC says no more than that the connection was closed.
      const absl::Status fault = link_.Diagnose();
      if (!fault.ok() && !IsTransient(fault)) return fault;
    }
    const MonotonicTime retry_at = clock_.Now() + backoff_.Next();
    if (retry_at >= deadline_) {
      return absl::UnavailableError(
          absl::StrFormat("cannot reach the coordinator at %s: %s; check the address and that it runs",
                          options_.coordinator, std::string(response.status().message())));
    }
    DILOCO_RETURN_IF_ERROR(Pause(clock_, retry_at, [this] { return CheckInterrupt(); }));
  }
}

template <typename Request, typename Response, typename Start>
absl::StatusOr<Response> Introduction::TryOnce(const Request& request, const Start& start) {
  struct Call {
    grpc::ClientContext context;
    Response response;
    Mutex mutex;
    CondVar changed;
    bool done = false;
    grpc::Status status;
  } call;
  const absl::Duration limit = std::min(kCallDeadline, std::max(deadline_ - clock_.Now(), kWaitSlice));
  call.context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(limit));
  start(&call.context, &request, &call.response, [&call](const grpc::Status& status) {
    MutexLock lock(&call.mutex);
    call.status = status;
    call.done = true;
    call.changed.NotifyAll();
  });
  MutexLock lock(&call.mutex);
  while (!call.done) {
    if (!CheckInterrupt().ok()) {
      call.context.TryCancel();
    }
    call.changed.WaitUntil(&call.mutex, ToSteady(clock_.Now() + kWaitSlice));
  }
  DILOCO_RETURN_IF_ERROR(CheckInterrupt());
  DILOCO_RETURN_IF_ERROR(FromGrpcStatus(call.status));
  return std::move(call.response);
}

absl::Status Introduction::CheckInterrupt() const {
  const bool interrupted = options_.interrupt != nullptr && options_.interrupt->load(std::memory_order_relaxed);
  return interrupted ? absl::CancelledError("interrupted") : absl::OkStatus();
}

}  // namespace diloco
