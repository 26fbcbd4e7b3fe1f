#include "worker/sync/control_session.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/time/time.h"

#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "common/rpc/status.h"
#include "spdlog/spdlog.h"

namespace diloco {
namespace {

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

SessionMachine::Options MachineOptions(const ControlSession::Options& options) {
  return {.heartbeat_interval = FromProto(options.joined.heartbeat_interval()),
          .lease = FromProto(options.joined.lease()),
          .backoff = options.backoff};
}

}  // namespace

ControlSession::ControlSession(Options options, std::shared_ptr<grpc::Channel> channel, Exchange* exchange,
                               StatusBoard* board, const Clock* clock)
    : options_(std::move(options)),
      exchange_(exchange),
      board_(board),
      clock_(clock),
      stub_(v1::WorkerService::NewStub(channel)),
      directive_(options_.joined.directive()),
      machine_(MachineOptions(options_)) {
  exchange_->SetEvaluator(options_.joined.directive().evaluate());
  thread_ = std::thread([this] { Run(); });
}

ControlSession::~ControlSession() {
  queue_.Close();
  thread_.join();
  if (call_) {
    call_->Cancel();
  }
}

v1::Directive ControlSession::directive() const {
  MutexLock lock(&mutex_);
  return directive_;
}

absl::Status ControlSession::Await(const std::function<bool(const v1::Directive&)>& enough) {
  MutexLock lock(&mutex_);
  while (!enough(directive_)) {
    DILOCO_RETURN_IF_ERROR(exchange_->CheckHope());
    changed_.WaitUntil(&mutex_, ToSteady(clock_->Now() + kWaitSlice));
  }
  return absl::OkStatus();
}

void ControlSession::Report(const v1::Evaluation& evaluation) {
  {
    MutexLock lock(&mutex_);
    evaluations_.push_back(evaluation);
    while (evaluations_.size() > kMaxEvaluationsPerHeartbeat) {
      evaluations_.pop_front();
    }
  }
  ReportSoon();
}

bool ControlSession::Leave(MonotonicTime deadline) {
  {
    MutexLock lock(&mutex_);
    leaving_ = true;
  }
  ReportSoon();
  MutexLock lock(&mutex_);
  while (!may_leave_ && clock_->Now() < deadline && exchange_->Check().ok()) {
    changed_.WaitUntil(&mutex_, ToSteady(std::min(deadline, clock_->Now() + kWaitSlice)));
  }
  return may_leave_;
}

void ControlSession::Run() {
  Step(SessionTimePassed{});
  while (!queue_.closed()) {
    std::optional<Event> event = queue_.Pop(machine_.next_wake());
    if (event) {
      Handle(*std::move(event));
    } else if (!queue_.closed()) {
      Step(SessionTimePassed{});
    }
  }
}

void ControlSession::Handle(Event event) {
  if (const auto* heard = std::get_if<Heard>(&event)) {
    Step(SessionHeard{heard->call});
    Take(heard->response.directive());
  } else if (const auto* written = std::get_if<Written>(&event)) {
    if (written->call == call_id_) {
      writing_ = false;
      if (std::exchange(heartbeat_pending_, false)) {
        Heartbeat();
      }
    }
  } else if (const auto* closed = std::get_if<SessionClosed>(&event)) {
    NoteClosed(*closed);
    Step(*closed);
  } else if (const auto* joined = std::get_if<Joined>(&event)) {
    if (joined->status.ok()) {
      spdlog::info("event=rejoined");
      Take(joined->directive);
    } else {
      spdlog::warn("event=rejoin_failed status={}", Quoted(joined->status.ToString()));
    }
    Step(RejoinAnswered{joined->status});
  } else {
    Step(HeartbeatWanted{});
  }
}

void ControlSession::NoteClosed(const SessionClosed& closed) {
  if (closed.call != call_id_) {
    return;
  }
  MutexLock lock(&mutex_);
  if (std::exchange(farewell_sent_, false) && evaluations_.empty()) {
    may_leave_ = true;
    changed_.NotifyAll();
  } else {
    spdlog::warn("event=session_closed status={}", absl::StatusCodeToString(closed.code));
  }
}

void ControlSession::Step(const SessionEvent& event) {
  for (const SessionEffect& effect : machine_.Step(event, clock_->Now())) {
    if (const auto* open = std::get_if<OpenSession>(&effect)) {
      Open(open->call);
    } else if (std::holds_alternative<SendHeartbeat>(effect)) {
      Heartbeat();
    } else if (std::holds_alternative<CancelSession>(effect)) {
      call_->Cancel();
    } else {
      Rejoin();
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

void ControlSession::Open(uint64_t call) {
  call_id_ = call;
  writing_ = false;
  heartbeat_pending_ = false;
  call_ = Call::Start(
      {.on_response =
           [this, call](v1::SessionResponse response) {
             exchange_->NoteContact();
             queue_.Push(Heard{call, std::move(response)});
           },
       .on_written = [this, call] { queue_.Push(Written{call}); },
       .on_done =
           [this, call](const grpc::Status& status) {
             queue_.Push(SessionClosed{call, FromGrpcStatus(status).code()});
           }},
      &tracker_, [this](grpc::ClientContext* context, auto* reactor) { stub_->async()->Session(context, reactor); });
}

void ControlSession::Heartbeat() {
  if (writing_) {
    heartbeat_pending_ = true;
    return;
  }
  writing_ = true;
  call_->Write(MakeHeartbeat());
}

v1::SessionRequest ControlSession::MakeHeartbeat() {
  const WorkerStatus status = board_->Get().At(clock_->Now());
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
  MutexLock lock(&mutex_);
  for (const v1::Evaluation& evaluation : evaluations_) {
    *request.add_evaluations() = evaluation;
  }
  request.set_leaving(leaving_);
  farewell_sent_ = leaving_;
  return request;
}

void ControlSession::Rejoin() {
  struct Exchanged {
    grpc::ClientContext context;
    v1::JoinRequest request;
    v1::JoinResponse response;
  };
  auto exchanged = std::make_shared<Exchanged>();
  exchanged->request = options_.join;
  exchanged->context.set_wait_for_ready(true);  // As for streams, see stream_calls.h.
  exchanged->context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(kCallDeadline));
  tracker_.Started();
  stub_->async()->Join(&exchanged->context, &exchanged->request, &exchanged->response,
                       [this, exchanged](const grpc::Status& status) {
                         queue_.Push(Joined{FromGrpcStatus(status), exchanged->response.directive()});
                         tracker_.Done();
                       });
}

void ControlSession::Take(const v1::Directive& directive) {
  exchange_->SetEvaluator(directive.evaluate());
  MutexLock lock(&mutex_);
  directive_ = directive;
  may_leave_ = may_leave_ || directive.leave();
  std::erase_if(evaluations_, [&](const v1::Evaluation& e) { return e.version() <= directive.evaluated_version(); });
  changed_.NotifyAll();
}

}  // namespace diloco
