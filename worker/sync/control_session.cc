#include "worker/sync/control_session.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/time/time.h"

#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/rpc/status.h"

namespace diloco {

ControlSession::ControlSession(Options options, std::shared_ptr<grpc::Channel> channel, Exchange* exchange,
                               StatusBoard* board, const Clock* clock)
    : exchange_(exchange),
      clock_(clock),
      stub_(v1::WorkerService::NewStub(channel)),
      directive_(options.joined.directive()),
      core_(std::move(options), exchange, board, this) {
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

bool ControlSession::Leave(MonotonicTime deadline) {
  queue_.Push(LeaveWanted{});
  MutexLock lock(&mutex_);
  while (!may_leave_ && clock_->Now() < deadline && exchange_->Check().ok()) {
    changed_.WaitUntil(&mutex_, ToSteady(std::min(deadline, clock_->Now() + kWaitSlice)));
  }
  return may_leave_;
}

void ControlSession::Run() {
  core_.HandleTime(clock_->Now());
  while (!queue_.closed()) {
    std::optional<ControlEvent> event = queue_.Pop(core_.next_wake());
    if (event) {
      core_.Handle(*std::move(event), clock_->Now());
    } else if (!queue_.closed()) {
      core_.HandleTime(clock_->Now());
    }
    MutexLock lock(&mutex_);
    directive_ = core_.directive();
    may_leave_ = core_.may_leave();
    changed_.NotifyAll();
  }
}

void ControlSession::OpenSession(uint64_t call) {
  call_ = Call::Start(
      {.on_response =
           [this, call](v1::SessionResponse response) {
             exchange_->NoteContact();
             queue_.Push(SessionAnswered{call, std::move(response)});
           },
       .on_written = [this, call] { queue_.Push(HeartbeatWritten{call}); },
       .on_done =
           [this, call](const grpc::Status& status) {
             queue_.Push(SessionClosed{call, FromGrpcStatus(status).code()});
           }},
      &tracker_, [this](grpc::ClientContext* context, auto* reactor) { stub_->async()->Session(context, reactor); });
}

void ControlSession::Send(uint64_t /*call*/, v1::SessionRequest request) { call_->Write(std::move(request)); }

void ControlSession::CancelSession(uint64_t /*call*/) { call_->Cancel(); }

void ControlSession::Join(v1::JoinRequest request) {
  struct Exchanged {
    grpc::ClientContext context;
    v1::JoinRequest request;
    v1::JoinResponse response;
  };
  auto exchanged = std::make_shared<Exchanged>();
  exchanged->request = std::move(request);
  exchanged->context.set_wait_for_ready(true);  // As for streams, see stream_calls.h.
  exchanged->context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(kCallDeadline));
  tracker_.Started();
  stub_->async()->Join(&exchanged->context, &exchanged->request, &exchanged->response,
                       [this, exchanged](const grpc::Status& status) {
                         const v1::JoinResponse& response = exchanged->response;
                         queue_.Push(JoinAnswered{FromGrpcStatus(status), response.directive(), response.generation()});
                         tracker_.Done();
                       });
}

}  // namespace diloco
