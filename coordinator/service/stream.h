// What the reactors of all streaming calls share: lifetime, the one Finish, one write at a time, the deadline of waits
// for the peer.
//
// gRPC calls the On... functions from its own threads, several at once for one stream; the driver and the readers call
// in from theirs. `mutex_` orders them. It may be held around Start... and Finish, which never call back from inside,
// and is never held around a call of the driver's, which may.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/rpc/status.h"
#include "coordinator/driver/shutting_down.h"
#include "coordinator/service/call_record.h"
#include "coordinator/service/gatekeeper.h"
#include "coordinator/service/service_world.h"

namespace diloco {

// `Reactor`: one of gRPC's server reactors. A subclass has an Open(), which Launch calls.
template <typename Reactor>
class Stream : public Reactor, public DrainableStream, public std::enable_shared_from_this<Stream<Reactor>> {
 public:
  // Keeps the stream alive until gRPC is done with it. Called by Launch.
  void Hold() {
    self_ = this->shared_from_this();
    world_->streams->Add(self_);
  }

  // The caller may make this call; else the call has ended. Called by Launch.
  bool Admitted() {
    if (!caller_.ok()) End(caller_.status());
    return caller_.ok();
  }

  void OnCancel() override { End(absl::CancelledError("the caller is gone")); }

  void Drain() override { End(ShuttingDown()); }

  void OnDone() final {
    if (caller_.ok()) OnClosed();
    world_->streams->Remove(this);
    std::shared_ptr<Stream> self;  // Dropped last, after the lock.
    MutexLock lock(&mutex_);
    StopWaiting();
    context_ = nullptr;
    record_.Finished(status_->code());
    self = std::move(self_);
  }

 protected:
  Stream(const ServiceWorld* world, grpc::CallbackServerContext* context, Method method)
      : world_(world),
        context_(context),
        record_(world->metrics, method),
        caller_(world->gate->Admit(method, *context)) {}

  // The end is decided, and the caller cannot know yet. Called once.
  virtual void OnEndLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {}
  // The call is over; nothing of gRPC's may be used any more. Called once after Open, without the lock.
  virtual void OnClosed() {}

  // From Open on.
  const Caller& caller() const { return **caller_; }
  // Of each message that names a worker. Errors: as Caller::MaySpeakFor.
  template <typename Message>
  absl::Status CheckSpeaker(const Message& message) const {
    return caller().MaySpeakFor(message.worker_id());
  }

  // Ends the call: at once, or when the write under way has come back. Only the first end counts.
  void End(const absl::Status& status) {
    MutexLock lock(&mutex_);
    EndLocked(status);
  }
  void EndLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (status_.has_value()) return;
    status_ = status;
    OnEndLocked();
    if (!writing_) FinishLocked();
  }
  bool ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return status_.has_value(); }
  bool writing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return writing_; }

  // Not after the end, and not during a write. `message` stays as it is until the write has come back.
  template <typename Message>
  void WriteLocked(const Message* message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    DILOCO_CHECK(!status_.has_value() && !writing_);
    writing_ = true;
    WaitForPeer();
    this->StartWrite(message);
  }
  // From OnWriteDone. True: the stream goes on.
  bool WriteCameBackLocked(bool ok) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    writing_ = false;
    StopWaiting();
    if (status_.has_value()) {
      FinishLocked();
    } else if (!ok) {
      EndLocked(absl::CancelledError("the caller is gone"));
    }
    return !status_.has_value();
  }

  // From here on the peer has `progress_deadline` to move; else the call is cancelled.
  void WaitForPeer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    StopWaiting();
    wait_ = world_->watchdog->Arm(world_->progress_deadline, [weak = this->weak_from_this()] {
      if (const std::shared_ptr<Stream> stream = weak.lock()) stream->Abort();
    });
  }
  void StopWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (wait_ != 0) world_->watchdog->Disarm(std::exchange(wait_, 0));
  }

  const ServiceWorld* const world_;
  Mutex mutex_;

 private:
  void FinishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    StopWaiting();
    this->Finish(ToGrpcStatus(*status_));
  }

  void Abort() {
    MutexLock lock(&mutex_);
    if (context_ == nullptr) return;
    // A write that is stuck only comes back when the call is cancelled.
    context_->TryCancel();
    EndLocked(absl::DeadlineExceededError("the caller made no progress"));
  }

  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(mutex_);  // nullptr: the call is over.
  const CallRecord record_;
  const absl::StatusOr<std::shared_ptr<const Caller>> caller_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  Watchdog::Token wait_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Status> status_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Stream> self_;
};

// Starts a stream, if the caller is admitted, and hands it to gRPC. Open() may already use and even end it: gRPC acts
// on that when it has it.
template <typename S, typename... Arguments>
S* Launch(const std::shared_ptr<S>& stream, Arguments&&... open_arguments) {
  stream->Hold();
  if (stream->Admitted()) stream->Open(std::forward<Arguments>(open_arguments)...);
  return stream.get();
}

}  // namespace diloco
