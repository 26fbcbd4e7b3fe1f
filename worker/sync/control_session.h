// The control plane of a worker: its own channel and its own thread, so that neither bulk traffic nor the sync thread's
// work holds a heartbeat up. Reports the status board, takes directives, joins again when the coordinator lost track.
#pragma once

#include <grpcpp/channel.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "diloco/v1/worker.grpc.pb.h"
#include "worker/client/session_machine.h"
#include "worker/client/worker_status.h"
#include "worker/sync/event_queue.h"
#include "worker/sync/exchange.h"
#include "worker/sync/stream_calls.h"

namespace diloco {

class ControlSession {
 public:
  struct Options {
    v1::JoinRequest join;  // As it was answered; sent again to come back.
    v1::JoinResponse joined;
    Backoff::Options backoff;
  };

  // The pointers outlive the object.
  ControlSession(Options options, std::shared_ptr<grpc::Channel> channel, Exchange* exchange, StatusBoard* board,
                 const Clock* clock);
  // Cancels the session and joins the thread.
  ~ControlSession();

  // ---- Thread-safe ----

  v1::Directive directive() const;

  // Waits until `enough` holds for the newest directive. `enough` must not block.
  // Errors: as Exchange::Check.
  absl::Status Await(const std::function<bool(const v1::Directive&)>& enough);

  // Reports now, not at the next heartbeat: others wait for what the status board says.
  void ReportSoon() { queue_.Push(HeartbeatWanted{}); }

  // Reported until the coordinator says that it holds this version's evaluation or a newer one. At most
  // kMaxEvaluationsPerHeartbeat are kept, the newest.
  void Report(const v1::Evaluation& evaluation);

  // Reports for the last time: the worker leaves for good. Waits until the coordinator says that it may go, or is gone
  // itself after it had that report and every evaluation; at most until `deadline`, and then returns false.
  bool Leave(MonotonicTime deadline);

 private:
  using Call = BidiCall<v1::SessionRequest, v1::SessionResponse>;
  struct Heard {
    uint64_t call = 0;
    v1::SessionResponse response;
  };
  struct Written {
    uint64_t call = 0;
  };
  struct Joined {
    absl::Status status;
    v1::Directive directive;
  };
  using Event = std::variant<Heard, Written, SessionClosed, Joined, HeartbeatWanted>;

  void Run();
  void Handle(Event event);
  void NoteClosed(const SessionClosed& closed);
  void Step(const SessionEvent& event);
  void Open(uint64_t call);
  void Heartbeat();
  void Rejoin();
  v1::SessionRequest MakeHeartbeat();
  void Take(const v1::Directive& directive);

  const Options options_;
  Exchange* const exchange_;
  StatusBoard* const board_;
  const Clock* const clock_;
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
  EventQueue<Event> queue_;

  mutable Mutex mutex_;
  CondVar changed_;
  v1::Directive directive_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::Evaluation> evaluations_ ABSL_GUARDED_BY(mutex_);
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  bool farewell_sent_ ABSL_GUARDED_BY(mutex_) = false;  // In this session.
  bool may_leave_ ABSL_GUARDED_BY(mutex_) = false;

  // Of the control thread.
  SessionMachine machine_;
  std::shared_ptr<Call> call_;
  uint64_t call_id_ = 0;
  bool writing_ = false;
  bool heartbeat_pending_ = false;  // Wanted while the one before was still being written.

  CallTracker tracker_;
  std::thread thread_;
};

}  // namespace diloco
