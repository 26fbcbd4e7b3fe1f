#include "coordinator/service/session_stream.h"

#include "common/base/status_macros.h"
#include "coordinator/driver/shutting_down.h"
#include "coordinator/service/checks.h"

namespace diloco {

SessionStream::SessionStream(const ServiceWorld* world, grpc::CallbackServerContext* context)
    : Stream(world, context, Method::kSession) {}

void SessionStream::Open() {
  const auto self = std::static_pointer_cast<SessionStream>(shared_from_this());
  token_ = world_->driver->OpenSession({
      .send = [self](v1::SessionResponse response) { self->Send(std::move(response)); },
      .close = [self](const absl::Status& status) { self->End(status); },
  });
  Read();
}

void SessionStream::Read() {
  MutexLock lock(&mutex_);
  if (!ended()) StartRead(&request_);
}

void SessionStream::OnReadDone(bool ok) {
  if (!ok) {
    End(absl::OkStatus());
    return;
  }
  if (const absl::Status status = Check(); !status.ok()) {
    End(status);
    return;
  }
  world_->driver->SessionMessage(token_, std::exchange(request_, {}));
  Read();
}

absl::Status SessionStream::Check() const {
  DILOCO_RETURN_IF_ERROR(CheckForm(request_));
  DILOCO_RETURN_IF_ERROR(CheckSpeaker(request_));
  for (const v1::Evaluation& evaluation : request_.evaluations()) DILOCO_RETURN_IF_ERROR(CheckSpeaker(evaluation));
  return absl::OkStatus();
}

void SessionStream::Send(v1::SessionResponse response) {
  MutexLock lock(&mutex_);
  if (draining_) return;
  next_ = std::move(response);
  AdvanceLocked();
}

void SessionStream::Drain() {
  MutexLock lock(&mutex_);
  draining_ = true;
  AdvanceLocked();
}

void SessionStream::AdvanceLocked() {
  if (ended() || writing()) return;
  if (next_.has_value()) {
    written_ = *std::exchange(next_, std::nullopt);
    WriteLocked(&written_);
  } else if (draining_) {
    EndLocked(ShuttingDown());
  }
}

void SessionStream::OnWriteDone(bool ok) {
  MutexLock lock(&mutex_);
  if (WriteCameBackLocked(ok)) AdvanceLocked();
}

void SessionStream::OnClosed() { world_->driver->CloseSession(token_); }

}  // namespace diloco
