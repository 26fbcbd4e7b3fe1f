// The control plane of a worker: ControlCore with its queue, its own channel and its own thread, so that neither bulk
// traffic nor the sync thread's work holds a heartbeat up.
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "diloco/v1/worker.grpc.pb.h"
#include "worker/sync/control_core.h"
#include "worker/sync/event_queue.h"
#include "worker/sync/stream_calls.h"

namespace diloco {

class ControlSession final : private ControlNetwork {
 public:
  using Options = ControlCore::Options;

  // The pointers outlive the object.
  ControlSession(Options options, std::shared_ptr<grpc::Channel> channel, Exchange* exchange, StatusBoard* board,
                 const Clock* clock);
  // Cancels the session and joins the thread.
  ~ControlSession() override;

  // ---- Thread-safe ----

  v1::Directive directive() const;

  // Waits until `enough` holds for the newest directive. `enough` must not block.
  // Errors: as Exchange::CheckHope.
  absl::Status Await(const std::function<bool(const v1::Directive&)>& enough);

  // Reports now, not at the next heartbeat: others wait for what the status board says.
  void ReportSoon() { queue_.Push(HeartbeatWanted{}); }

  void Report(const v1::Evaluation& evaluation) { queue_.Push(EvaluationMade{evaluation}); }

  // Reports for the last time: the worker leaves for good. Waits until it may (ControlCore::may_leave), at most until
  // `deadline`, and then returns false.
  bool Leave(MonotonicTime deadline);

 private:
  using Call = BidiCall<v1::SessionRequest, v1::SessionResponse>;

  void Run();

  void OpenSession(uint64_t call) override;
  void Send(uint64_t call, v1::SessionRequest request) override;
  void CancelSession(uint64_t call) override;
  void Join(v1::JoinRequest request) override;

  Exchange* const exchange_;
  const Clock* const clock_;
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
  EventQueue<ControlEvent> queue_;

  // As the core has them.
  mutable Mutex mutex_;
  CondVar changed_;
  v1::Directive directive_ ABSL_GUARDED_BY(mutex_);
  bool may_leave_ ABSL_GUARDED_BY(mutex_) = false;

  // Of the control thread.
  std::shared_ptr<Call> call_;
  ControlCore core_;

  CallTracker tracker_;
  std::thread thread_;
};

}  // namespace diloco
