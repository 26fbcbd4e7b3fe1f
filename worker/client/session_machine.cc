#include "worker/client/session_machine.h"

#include <algorithm>
#include <utility>

namespace diloco {
namespace {

// Trying again would not help.
bool IsRefusal(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kAborted:  // What the worker holds was replaced: it cannot come back as it is.
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
      return true;
    default:
      return false;
  }
}

}  // namespace

SessionMachine::SessionMachine(const Options& options) : options_(options), backoff_(options.backoff) {}

std::vector<SessionEffect> SessionMachine::Step(const SessionEvent& event, MonotonicTime now) {
  now_ = now;
  effects_.clear();
  std::visit([this](const auto& e) { Handle(e); }, event);
  CheckTime();
  return std::exchange(effects_, {});
}

MonotonicTime SessionMachine::next_wake() const {
  switch (state_) {
    case State::kWaiting:
      return retry_at_;
    case State::kOpen:
      return std::min(heartbeat_at_, heard_at_ + options_.lease);
    case State::kJoining:  // The call has a deadline of its own.
    case State::kRefused:
      break;
  }
  return now_ + options_.lease;
}

void SessionMachine::Handle(const SessionHeard& event) {
  if (state_ == State::kOpen && event.call == call_) {
    if (!std::exchange(heard_, true)) {
      reconnects_ += std::exchange(ever_heard_, true) ? 1 : 0;
    }
    heard_at_ = now_;
    backoff_.Reset();
  }
}

void SessionMachine::Handle(const SessionClosed& event) {
  if (state_ != State::kOpen || event.call != call_) {
    return;
  }
  // Of an eviction the answer to a join says all there is to say.
  member_ = event.code != absl::StatusCode::kAborted && event.code != absl::StatusCode::kPermissionDenied;
  Retry();
}

void SessionMachine::Handle(const RejoinAnswered& event) {
  if (state_ != State::kJoining) {
    return;
  }
  if (IsRefusal(event.status.code())) {
    refused_ = event.status;
    state_ = State::kRefused;
    return;
  }
  member_ = event.status.ok();
  Retry();
  if (member_) {
    retry_at_ = now_;
  }
}

void SessionMachine::Retry() {
  state_ = State::kWaiting;
  retry_at_ = now_ + backoff_.Next();
}

void SessionMachine::CheckTime() {
  if (state_ == State::kOpen && now_ - heard_at_ >= options_.lease) {
    effects_.push_back(CancelSession{call_});
    Retry();
  }
  if (state_ == State::kWaiting && now_ >= retry_at_) {
    if (!member_) {
      state_ = State::kJoining;
      effects_.push_back(RejoinRun{});
      return;
    }
    state_ = State::kOpen;
    heard_ = false;
    heard_at_ = now_;
    heartbeat_at_ = now_;
    effects_.push_back(OpenSession{++call_});
  }
  if (state_ == State::kOpen && now_ >= heartbeat_at_) {
    heartbeat_at_ = now_ + options_.heartbeat_interval;
    effects_.push_back(SendHeartbeat{call_});
  }
}

}  // namespace diloco
