// PURE apart from the Exchange and the StatusBoard that it tells: everything that the control thread decides. Messages,
// wishes of the other threads and time come in as events; the network is behind an interface. Not thread-safe: the
// control thread owns it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <variant>

#include "absl/status/status.h"

#include "common/base/clock.h"
#include "diloco/v1/worker.pb.h"
#include "worker/client/session_machine.h"
#include "worker/client/worker_status.h"
#include "worker/sync/exchange.h"

namespace diloco {

// ---- Events, besides SessionClosed and HeartbeatWanted of the session machine ----

// From the network.
struct SessionAnswered {
  uint64_t call = 0;
  v1::SessionResponse response;
};
struct HeartbeatWritten {
  uint64_t call = 0;
};
struct JoinAnswered {
  absl::Status status;
  v1::Directive directive;
  uint32_t generation = 0;  // JoinResponse.generation.
};
// To be reported until the coordinator says that it holds this version's evaluation or a newer one. At most
// kMaxEvaluationsPerHeartbeat are kept, the newest.
struct EvaluationMade {
  v1::Evaluation evaluation;
};
// From now on each report is the last: the worker leaves for good.
struct LeaveWanted {};

using ControlEvent = std::variant<SessionAnswered, HeartbeatWritten, SessionClosed, JoinAnswered, HeartbeatWanted,
                                  EvaluationMade, LeaveWanted>;

// True when the run has its parameters, as far as the coordinator says.
bool IsSeeded(const v1::Directive& directive);

// What the control thread asks of the network. Each call answers with events. At most one Send is outstanding.
class ControlNetwork {
 public:
  virtual ~ControlNetwork() = default;
  virtual void OpenSession(uint64_t call) = 0;
  virtual void Send(uint64_t call, v1::SessionRequest request) = 0;
  virtual void CancelSession(uint64_t call) = 0;
  virtual void Join(v1::JoinRequest request) = 0;
};

class ControlCore {
 public:
  struct Options {
    v1::JoinRequest join;  // As it was answered; sent again to come back, with what the worker then holds.
    v1::JoinResponse joined;
    Backoff::Options backoff;
    // Each directive that asks for the worker's consensus. Must not block; may be empty.
    std::function<void()> on_consensus_wanted;
  };

  // The pointers outlive the object.
  ControlCore(Options options, Exchange* exchange, StatusBoard* board, ControlNetwork* network);

  // A refusal for good is told to the exchange.
  void Handle(ControlEvent event, MonotonicTime now);
  // To be called when next_wake() has come, first of all at the start.
  void HandleTime(MonotonicTime now) { Step(SessionTimePassed{}, now); }
  MonotonicTime next_wake() const { return machine_.next_wake(); }

  // The newest one.
  const v1::Directive& directive() const { return directive_; }
  // The coordinator has said that the worker may leave, or was gone itself after it had the last report and every
  // evaluation.
  bool may_leave() const { return may_leave_; }

 private:
  void On(const SessionAnswered& event, MonotonicTime now);
  void On(const HeartbeatWritten& event, MonotonicTime now);
  void On(const SessionClosed& event, MonotonicTime now);
  void On(const JoinAnswered& event, MonotonicTime now);
  void On(const HeartbeatWanted& event, MonotonicTime now) { Step(event, now); }
  void On(const EvaluationMade& event, MonotonicTime now);
  void On(const LeaveWanted& event, MonotonicTime now);

  void Step(const SessionEvent& event, MonotonicTime now);
  v1::JoinRequest MakeJoin() const;
  void Heartbeat(MonotonicTime now);
  v1::SessionRequest MakeHeartbeat(MonotonicTime now);
  void Take(const v1::Directive& directive);

  const Options options_;
  Exchange* const exchange_;
  StatusBoard* const board_;
  ControlNetwork* const network_;

  SessionMachine machine_;
  v1::Directive directive_;
  std::deque<v1::Evaluation> evaluations_;
  bool held_nothing_ = false;  // When it asked to join again.
  uint64_t call_ = 0;          // The newest session.
  bool writing_ = false;
  bool heartbeat_pending_ = false;  // Wanted while the one before was still being written.
  bool leaving_ = false;
  bool farewell_sent_ = false;  // In this session.
  bool may_leave_ = false;
};

}  // namespace diloco
