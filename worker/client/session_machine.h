// PURE: membership after the first join. Keeps one session open, sends heartbeats in time, and joins again with the
// same incarnation when the coordinator does not know the worker any more.
//
//            OpenSession              closed, silent for a lease
//   kOpen <---------------- kWaiting <--------------------------- kOpen
//     ^                        | the session ended with ABORTED or PERMISSION_DENIED
//     |  joined                v
//     +-------------------- kJoining
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/status.h"

#include "common/base/clock.h"
#include "worker/client/backoff.h"

namespace diloco {

// ---- Events. Those with a `call` are ignored when it is not the newest. ----

struct SessionHeard {
  uint64_t call = 0;
};
struct SessionClosed {
  uint64_t call = 0;
  absl::StatusCode code = absl::StatusCode::kOk;
};
// The answer to RejoinRun.
struct RejoinAnswered {
  absl::Status status;
};
// Something that should not wait for the next heartbeat.
struct HeartbeatWanted {};
struct SessionTimePassed {};

using SessionEvent = std::variant<SessionHeard, SessionClosed, RejoinAnswered, HeartbeatWanted, SessionTimePassed>;

// ---- Effects ----

struct OpenSession {
  uint64_t call = 0;
};
struct SendHeartbeat {
  uint64_t call = 0;
};
struct CancelSession {
  uint64_t call = 0;
};
// Join with the same incarnation.
struct RejoinRun {};

using SessionEffect = std::variant<OpenSession, SendHeartbeat, CancelSession, RejoinRun>;

class SessionMachine {
 public:
  struct Options {
    absl::Duration heartbeat_interval = absl::Seconds(2);
    absl::Duration lease = absl::Seconds(20);  // A session that is silent for so long is opened again.
    Backoff::Options backoff;
  };

  // Starts as a member; the session opens at the first event.
  explicit SessionMachine(const Options& options);

  std::vector<SessionEffect> Step(const SessionEvent& event, MonotonicTime now);

  MonotonicTime next_wake() const;

  // Not OK: the coordinator refused the worker for good; nothing is tried any more.
  const absl::Status& refused() const { return refused_; }
  // A session is open and was heard.
  bool connected() const { return state_ == State::kOpen && heard_; }
  // Sessions that were heard after the first one.
  int64_t reconnects() const { return reconnects_; }

 private:
  enum class State { kWaiting, kOpen, kJoining, kRefused };

  void Handle(const SessionHeard& event);
  void Handle(const SessionClosed& event);
  void Handle(const RejoinAnswered& event);
  void Handle(const HeartbeatWanted&) { heartbeat_at_ = now_; }
  void Handle(const SessionTimePassed&) {}

  void Retry();
  void CheckTime();

  Options options_;
  Backoff backoff_;
  State state_ = State::kWaiting;
  bool member_ = true;
  uint64_t call_ = 0;
  MonotonicTime retry_at_;
  bool heard_ = false;  // In this session.
  MonotonicTime heard_at_;
  MonotonicTime heartbeat_at_;
  bool ever_heard_ = false;
  int64_t reconnects_ = 0;
  absl::Status refused_;

  MonotonicTime now_;
  std::vector<SessionEffect> effects_;
};

}  // namespace diloco
