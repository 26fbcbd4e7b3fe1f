#include "coordinator/service/probe_stream.h"

#include <memory>

#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "coordinator/driver/another_run.h"
#include "coordinator/service/checks.h"

namespace diloco {

ProbeStream::ProbeStream(const ServiceWorld* world, grpc::CallbackServerContext* context)
    : Stream(world, context, Method::kProbe) {}

void ProbeStream::Open() {
  MutexLock lock(&mutex_);
  admitted_ = !world_->probe_open->exchange(true);
  if (!admitted_) {
    EndLocked(absl::ResourceExhaustedError("another probe is under way; try again in a few seconds"));
    return;
  }
  const std::weak_ptr<ProbeStream> weak = std::static_pointer_cast<ProbeStream>(shared_from_this());
  last_moment_ = world_->watchdog->Arm(world_->probe_time, [weak, time = world_->probe_time] {
    if (const std::shared_ptr<ProbeStream> stream = weak.lock()) {
      stream->End(absl::ResourceExhaustedError(absl::StrFormat("a probe ends after %s", absl::FormatDuration(time))));
    }
  });
  Read();
}

void ProbeStream::Read() {
  WaitForPeer();
  StartRead(&request_);
}

void ProbeStream::OnReadDone(bool ok) {
  MutexLock lock(&mutex_);
  StopWaiting();
  if (ended()) return;
  const absl::Status status = ok ? Take() : absl::OkStatus();
  if (!ok || !status.ok()) {
    EndLocked(status);
    return;
  }
  response_.set_run_id(world_->run_id);
  response_.set_identity(caller().Uri());
  response_.mutable_payload()->resize(request_.answer_bytes());
  WriteLocked(&response_);
}

absl::Status ProbeStream::Take() {
  DILOCO_RETURN_IF_ERROR(CheckForm(request_));
  if (!request_.run_id().empty() && request_.run_id() != world_->run_id) {
    return AnotherRun(request_.run_id(), world_->run_id);
  }
  bytes_ += request_.payload().size() + request_.answer_bytes();
  if (bytes_ <= kMaxProbeBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat("a probe ends after %d bytes", kMaxProbeBytes));
}

void ProbeStream::OnWriteDone(bool ok) {
  MutexLock lock(&mutex_);
  if (WriteCameBackLocked(ok)) Read();
}

void ProbeStream::OnEndLocked() {
  if (!admitted_) return;
  world_->watchdog->Disarm(last_moment_);
  world_->probe_open->store(false);
}

}  // namespace diloco
