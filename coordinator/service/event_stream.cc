#include "coordinator/service/event_stream.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"

#include "coordinator/driver/event_log.h"
#include "coordinator/service/checks.h"

namespace diloco {

EventStream::EventStream(const ServiceWorld* world, grpc::CallbackServerContext* context)
    : Stream(world, context, Method::kWatchEvents) {}

void EventStream::Open(const v1::WatchEventsRequest& request) {
  absl::Status status = CheckAdminForm(request);
  if (status.ok() && !request.run_id().empty() && request.run_id() != world_->run_id) {
    status = absl::NotFoundError(
        absl::StrFormat("run \"%s\" is not here: this coordinator has run \"%s\"", request.run_id(), world_->run_id));
  }
  if (!status.ok()) {
    End(status);
    return;
  }
  {
    MutexLock lock(&mutex_);
    follow_ = request.follow();
    after_ = request.log_id() == 0 || request.log_id() == world_->events->id() ? request.after() : 0;
  }
  const auto weak = std::weak_ptr<EventStream>(std::static_pointer_cast<EventStream>(shared_from_this()));
  const auto wake = [weak] {
    if (const std::shared_ptr<EventStream> self = weak.lock()) self->Pump();
  };
  if (request.follow() && !world_->events->Watch(this, wake)) {
    End(absl::ResourceExhaustedError(absl::StrFormat("%d others watch already", kMaxEventWatchers)));
    return;
  }
  Pump();
}

void EventStream::Pump() {
  MutexLock lock(&mutex_);
  PumpLocked();
}

void EventStream::PumpLocked() {
  if (ended() || writing()) return;
  if (const std::optional<EventLog::Reading> next = world_->events->Next(after_)) {
    after_ = next->event->number();
    written_.set_run_id(world_->run_id);
    *written_.mutable_event() = *next->event;
    written_.set_missed(next->missed);
    WriteLocked(&written_);
  } else if (!follow_) {
    EndLocked(absl::OkStatus());
  }
}

void EventStream::OnWriteDone(bool ok) {
  MutexLock lock(&mutex_);
  if (WriteCameBackLocked(ok)) PumpLocked();
}

void EventStream::OnClosed() { world_->events->Unwatch(this); }

}  // namespace diloco
