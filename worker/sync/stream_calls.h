// gRPC streams whose callbacks only enqueue. A call keeps itself alive until gRPC is done with it; its owner's methods
// are for one thread and do nothing once the call has failed. Every call ends in exactly one `on_done`.
//
// A call that is started while the coordinator is away waits until the channel has reached it again, so that only the
// channel's backoff stands between its return and ours. One whose connection breaks fails.
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

// What both kinds of stream share: their life from Launch to OnDone.
template <typename Reactor, typename Response>
class StreamCall : public Reactor {
 protected:
  using OnResponse = std::function<void(Response)>;
  using OnEnd = std::function<void(const grpc::Status&)>;

  StreamCall(OnResponse on_response, OnEnd on_end, CallTracker* tracker)
      : on_response_(std::move(on_response)), on_end_(std::move(on_end)), tracker_(tracker) {
    context_.set_wait_for_ready(true);
  }

  // Hands the call to gRPC. The hold that it takes, for operations from outside of callbacks, is the subclass's to give
  // back when the stream breaks.
  template <typename Call, typename Start>
  static std::shared_ptr<Call> Launch(Call* made, const Start& start) {
    std::shared_ptr<Call> call(made);
    call->self_ = call;
    call->tracker_->Started();
    start(&call->context_, call.get());
    call->StartRead(&call->response_);
    call->AddHold();
    call->StartCall();
    return call;
  }

  void Read() { this->StartRead(&response_); }
  void Deliver() { on_response_(std::exchange(response_, Response())); }
  void TryCancel() { context_.TryCancel(); }

 private:
  void OnDone(const grpc::Status& status) final {
    on_end_(status);
    CallTracker* tracker = tracker_;
    self_.reset();  // May delete this.
    tracker->Done();
  }

  const OnResponse on_response_;
  const OnEnd on_end_;
  CallTracker* const tracker_;
  std::shared_ptr<StreamCall> self_;
  grpc::ClientContext context_;
  Response response_;
};

// Reads as responses come; one Write at a time.
template <typename Request, typename Response>
class BidiCall final : public StreamCall<grpc::ClientBidiReactor<Request, Response>, Response> {
 public:
  struct Callbacks {
    std::function<void(Response)> on_response;
    std::function<void()> on_written;
    std::function<void(const grpc::Status&)> on_done;
  };

  // `start(context, reactor)` calls the stub's method. `tracker` outlives the call.
  template <typename F>
  static std::shared_ptr<BidiCall> Start(Callbacks callbacks, CallTracker* tracker, const F& start) {
    return BidiCall::Launch(new BidiCall(std::move(callbacks), tracker), start);
  }

  void Write(Request request) {
    MutexLock lock(&mutex_);
    if (!broken_) {
      request_ = std::move(request);
      this->StartWrite(&request_);
    }
  }
  void Cancel() { this->TryCancel(); }

 private:
  BidiCall(Callbacks callbacks, CallTracker* tracker)
      : BidiCall::StreamCall(std::move(callbacks.on_response), std::move(callbacks.on_done), tracker),
        on_written_(std::move(callbacks.on_written)) {}

  void OnReadDone(bool ok) override {
    if (!ok) {
      MutexLock lock(&mutex_);
      broken_ = true;
      this->RemoveHold();
      return;
    }
    this->Deliver();
    this->Read();
  }
  void OnWriteDone(bool ok) override {
    if (ok) {
      on_written_();
    }
  }

  const std::function<void()> on_written_;
  Request request_;
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
class ReadCall final : public PacedCall, public StreamCall<grpc::ClientReadReactor<Response>, Response> {
 public:
  struct Callbacks {
    std::function<void(Response)> on_response;
    std::function<void(const grpc::Status&)> on_done;
  };

  // As BidiCall's.
  template <typename F>
  static std::shared_ptr<ReadCall> Start(Callbacks callbacks, CallTracker* tracker, const F& start) {
    return ReadCall::Launch(new ReadCall(std::move(callbacks), tracker), start);
  }

  void ReadNext() override {
    MutexLock lock(&mutex_);
    if (!released_ && !cancelled_) {
      reading_ = true;
      this->Read();
    }
  }
  void Cancel() override {
    this->TryCancel();
    MutexLock lock(&mutex_);
    cancelled_ = true;
    if (!reading_) {
      Release();
    }
  }

 private:
  ReadCall(Callbacks callbacks, CallTracker* tracker)
      : ReadCall::StreamCall(std::move(callbacks.on_response), std::move(callbacks.on_done), tracker) {}

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
    this->Deliver();
  }

  Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = true;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace diloco
