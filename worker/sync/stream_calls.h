// gRPC streams whose callbacks only enqueue. A call keeps itself alive until gRPC is done with it; its owner's methods
// are for one thread and do nothing once the call has failed. Every call ends in exactly one `on_done`.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "common/base/mutex.h"

namespace diloco {

// Counts calls in progress, so that what their callbacks refer to outlives them.
class CallTracker {
 public:
  ~CallTracker() {
    MutexLock lock(&mutex_);
    while (calls_ > 0) {
      // Every call was cancelled, so this ends soon; the slices are no deadline.
      changed_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + std::chrono::seconds(1));
    }
  }
  void Started() {
    MutexLock lock(&mutex_);
    ++calls_;
  }
  void Done() {
    MutexLock lock(&mutex_);
    --calls_;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Reads as responses come; one Write at a time.
template <typename Request, typename Response>
class BidiCall final : public grpc::ClientBidiReactor<Request, Response> {
 public:
  struct Callbacks {
    std::function<void(Response)> on_response;
    std::function<void()> on_written;
    std::function<void(const grpc::Status&)> on_done;
  };

  // `start(context, reactor)` calls the stub's method. `tracker` outlives the call.
  template <typename F>
  static std::shared_ptr<BidiCall> Start(Callbacks callbacks, CallTracker* tracker, const F& start) {
    std::shared_ptr<BidiCall> call(new BidiCall(std::move(callbacks), tracker));
    call->self_ = call;
    tracker->Started();
    start(&call->context_, call.get());
    call->StartRead(&call->response_);
    call->AddHold();  // For Write, until the stream breaks.
    call->StartCall();
    return call;
  }

  void Write(Request request) {
    MutexLock lock(&mutex_);
    if (!broken_) {
      request_ = std::move(request);
      this->StartWrite(&request_);
    }
  }
  void Cancel() { context_.TryCancel(); }

 private:
  BidiCall(Callbacks callbacks, CallTracker* tracker) : callbacks_(std::move(callbacks)), tracker_(tracker) {}

  void OnReadDone(bool ok) override {
    if (!ok) {
      MutexLock lock(&mutex_);
      broken_ = true;
      this->RemoveHold();
      return;
    }
    callbacks_.on_response(std::exchange(response_, Response()));
    this->StartRead(&response_);
  }
  void OnWriteDone(bool ok) override {
    if (ok) {
      callbacks_.on_written();
    }
  }
  void OnDone(const grpc::Status& status) override {
    callbacks_.on_done(status);
    CallTracker* tracker = tracker_;
    self_.reset();  // May delete this.
    tracker->Done();
  }

  const Callbacks callbacks_;
  CallTracker* const tracker_;
  std::shared_ptr<BidiCall> self_;
  grpc::ClientContext context_;
  Request request_;
  Response response_;
  Mutex mutex_;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
};

// A stream of messages from the other end. Reads one, and another only when told, so that a slow reader holds at most
// one.
class PacedCall {
 public:
  virtual ~PacedCall() = default;
  virtual void ReadNext() = 0;
  virtual void Cancel() = 0;
};

template <typename Response>
class ReadCall final : public PacedCall, public grpc::ClientReadReactor<Response> {
 public:
  struct Callbacks {
    std::function<void(Response)> on_response;
    std::function<void(const grpc::Status&)> on_done;
  };

  template <typename F>
  static std::shared_ptr<ReadCall> Start(Callbacks callbacks, CallTracker* tracker, const F& start) {
    std::shared_ptr<ReadCall> call(new ReadCall(std::move(callbacks), tracker));
    call->self_ = call;
    tracker->Started();
    start(&call->context_, call.get());
    call->StartRead(&call->response_);
    call->AddHold();  // For ReadNext, until the stream breaks or is cancelled.
    call->StartCall();
    return call;
  }

  void ReadNext() override {
    MutexLock lock(&mutex_);
    if (!released_ && !cancelled_) {
      reading_ = true;
      this->StartRead(&response_);
    }
  }
  void Cancel() override {
    context_.TryCancel();
    MutexLock lock(&mutex_);
    cancelled_ = true;
    if (!reading_) {
      Release();
    }
  }

 private:
  ReadCall(Callbacks callbacks, CallTracker* tracker) : callbacks_(std::move(callbacks)), tracker_(tracker) {}

  void Release() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!released_) {
      released_ = true;
      this->RemoveHold();
    }
  }
  void OnReadDone(bool ok) override {
    {
      MutexLock lock(&mutex_);
      reading_ = false;
      if (!ok || cancelled_) {  // After Cancel nobody asks for more, even if this message was faster.
        Release();
        return;
      }
    }
    callbacks_.on_response(std::exchange(response_, Response()));
  }
  void OnDone(const grpc::Status& status) override {
    callbacks_.on_done(status);
    CallTracker* tracker = tracker_;
    self_.reset();  // May delete this.
    tracker->Done();
  }

  const Callbacks callbacks_;
  CallTracker* const tracker_;
  std::shared_ptr<ReadCall> self_;
  grpc::ClientContext context_;
  Response response_;
  Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = true;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace diloco
