#include "worker/sync/control_core.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "common/base/limits.h"
#include "common/config/lease_bounds.h"
#include "common/log/log.h"

namespace diloco {
namespace {

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

// A coordinator that says what no configuration may would have the worker spin, or be silent for ever.
SessionMachine::Options MachineOptions(const ControlCore::Options& options) {
  return {.heartbeat_interval =
              std::clamp(FromProto(options.joined.heartbeat_interval()), kShortestHeartbeat, kLongestHeartbeat),
          .lease = std::clamp(FromProto(options.joined.lease()), kShortestLease, kLongestLease),
          .backoff = options.backoff};
}

}  // namespace

bool IsSeeded(const v1::Directive& directive) {
  return directive.state() != v1::RUN_STATE_SEEDING && directive.state() != v1::RUN_STATE_HOLDING &&
         directive.state() != v1::RUN_STATE_PAUSED && directive.state() != v1::RUN_STATE_UNSPECIFIED;
}

ControlCore::ControlCore(Options options, Exchange* exchange, StatusBoard* board, ControlNetwork* network)
    : options_(std::move(options)),
      exchange_(exchange),
      board_(board),
      network_(network),
      machine_(MachineOptions(options_)),
      directive_(options_.joined.directive()) {
  Take(v1::Directive(directive_));
}

void ControlCore::Handle(ControlEvent event, MonotonicTime now) {
  std::visit([&](const auto& e) { On(e, now); }, event);
}

void ControlCore::On(const SessionAnswered& event, MonotonicTime now) {
  Step(SessionHeard{event.call}, now);
  Take(event.response.directive());
}

void ControlCore::On(const HeartbeatWritten& event, MonotonicTime now) {
  if (event.call != call_) {
    return;
  }
  writing_ = false;
  if (std::exchange(heartbeat_pending_, false)) {
    Heartbeat(now);
  }
}

void ControlCore::On(const SessionClosed& event, MonotonicTime now) {
  if (event.call == call_) {
    if (std::exchange(farewell_sent_, false) && evaluations_.empty()) {
      may_leave_ = true;
    } else {
      LogWarning("session_closed", {{"round", board_->Get().round}, {"reason", absl::StatusCodeToString(event.code)}});
    }
  }
  Step(event, now);
}

void ControlCore::On(const JoinAnswered& event, MonotonicTime now) {
  absl::Status status = event.status;
  // What it holds the coordinator has compared. One that holds nothing is let in as a new member, and what it took then
  // would pass for the consensus that there was when it joined first.
  if (status.ok() && held_nothing_ && event.generation != options_.joined.generation()) {
    status = absl::AbortedError("the coordinator has another consensus than when this worker joined");
  }
  if (status.ok()) {
    LogInfo("rejoined", {{"round", board_->Get().round}});
    Take(event.directive);
  } else {
    LogWarning("rejoin_failed", {{"round", board_->Get().round}, {"reason", status.ToString()}});
  }
  Step(RejoinAnswered{status}, now);
}

void ControlCore::On(const EvaluationMade& event, MonotonicTime now) {
  evaluations_.push_back(event.evaluation);
  while (evaluations_.size() > kMaxEvaluationsPerHeartbeat) {
    evaluations_.pop_front();
  }
  Step(HeartbeatWanted{}, now);
}

void ControlCore::On(const LeaveWanted&, MonotonicTime now) {
  leaving_ = true;
  Step(HeartbeatWanted{}, now);
}

void ControlCore::Step(const SessionEvent& event, MonotonicTime now) {
  for (const SessionEffect& effect : machine_.Step(event, now)) {
    if (const auto* open = std::get_if<OpenSession>(&effect)) {
      call_ = open->call;
      writing_ = false;
      heartbeat_pending_ = false;
      network_->OpenSession(call_);
    } else if (std::holds_alternative<SendHeartbeat>(effect)) {
      Heartbeat(now);
    } else if (std::holds_alternative<CancelSession>(effect)) {
      network_->CancelSession(call_);
    } else {
      v1::JoinRequest join = MakeJoin();
      held_nothing_ = !join.has_held();
      network_->Join(std::move(join));
    }
  }
  if (!machine_.refused().ok()) {
    exchange_->Fail(machine_.refused());
  }
  board_->Update([this](WorkerStatus& status) {
    status.connected = machine_.connected();
    status.session_reconnects = machine_.reconnects();
  });
}

v1::JoinRequest ControlCore::MakeJoin() const {
  v1::JoinRequest join = options_.join;
  const std::vector<int64_t> held = board_->Get().held;
  if (!held.empty()) {
    join.mutable_held()->set_generation(options_.joined.generation());
    join.mutable_held()->mutable_versions()->Assign(held.begin(), held.end());
  }
  return join;
}

void ControlCore::Heartbeat(MonotonicTime now) {
  if (writing_) {
    heartbeat_pending_ = true;
    return;
  }
  writing_ = true;
  network_->Send(call_, MakeHeartbeat(now));
}

v1::SessionRequest ControlCore::MakeHeartbeat(MonotonicTime now) {
  const WorkerStatus status = board_->Get().At(now);
  v1::SessionRequest request;
  request.set_run_id(options_.join.run_id());
  request.set_worker_id(options_.join.worker_id());
  request.set_incarnation(options_.join.incarnation());
  *request.mutable_progress() = ToProgress(status);
  for (const RoundAbstention& abstention : status.abstentions) {
    v1::Abstention* added = request.add_abstentions();
    added->set_fragment(static_cast<uint32_t>(abstention.fragment));
    added->set_round(abstention.round);
    added->set_reason(abstention.reason.substr(0, kMaxReasonBytes));
  }
  for (const v1::Evaluation& evaluation : evaluations_) {
    *request.add_evaluations() = evaluation;
  }
  if (status.last_round) {
    request.set_last_round(*status.last_round);
  }
  request.set_suspending(status.suspending);
  request.set_leaving(leaving_);
  farewell_sent_ = leaving_;
  return request;
}

void ControlCore::Take(const v1::Directive& directive) {
  exchange_->SetEvaluator(directive.evaluate());
  if (directive.drain()) {
    exchange_->AskToDrain();
  }
  directive_ = directive;
  may_leave_ = may_leave_ || directive.leave();
  if (directive.give_consensus() && options_.on_consensus_wanted) {
    options_.on_consensus_wanted();
  }
  std::erase_if(evaluations_, [&](const v1::Evaluation& e) { return e.version() <= directive.evaluated_version(); });
}

}  // namespace diloco
