#include "coordinator/service/session_stream.h"

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
  if (const absl::Status status = CheckForm(request_); !status.ok()) {
    End(status);
    return;
  }
  world_->driver->SessionMessage(token_, std::exchange(request_, {}));
  Read();
}

void SessionStream::Send(v1::SessionResponse response) {
  MutexLock lock(&mutex_);
  if (ended()) return;
  if (writing()) {
    next_ = std::move(response);
    return;
  }
  written_ = std::move(response);
  WriteLocked(&written_);
}

void SessionStream::OnWriteDone(bool ok) {
  MutexLock lock(&mutex_);
  if (!WriteCameBackLocked(ok) || !next_.has_value()) return;
  written_ = *std::exchange(next_, std::nullopt);
  WriteLocked(&written_);
}

void SessionStream::OnClosed() { world_->driver->CloseSession(token_); }

}  // namespace diloco
