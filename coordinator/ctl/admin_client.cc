#include "coordinator/ctl/admin_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <functional>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/rpc/deadline.h"
#include "common/rpc/status.h"
#include "diloco/v1/admin.grpc.pb.h"

namespace diloco {

using Stub = v1::AdminService::StubInterface;

class AdminClient::Caller {
 public:
  Caller(const std::shared_ptr<grpc::Channel>& channel, CoordinatorLink link, std::string run_id,
         absl::Duration timeout)
      : link_(std::move(link)),
        run_id_(std::move(run_id)),
        timeout_(timeout),
        stub_(v1::AdminService::NewStub(channel)) {}

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                Request request) const {
    request.set_run_id(run_id_);
    grpc::ClientContext context;
    context.set_deadline(DeadlineAfter(timeout_));
    Response response;
    const absl::Status status = FromGrpcStatus((stub_.get()->*method)(&context, request, &response));
    if (status.ok()) return response;
    return Explain(status);
  }

  absl::Status WatchEvents(v1::WatchEventsRequest request,
                           const std::function<bool(const v1::WatchEventsResponse&)>& take) const {
    request.set_run_id(run_id_);
    grpc::ClientContext context;
    if (!request.follow()) context.set_deadline(DeadlineAfter(timeout_));
    const std::unique_ptr<grpc::ClientReaderInterface<v1::WatchEventsResponse>> reader =
        stub_->WatchEvents(&context, request);
    v1::WatchEventsResponse response;
    while (reader->Read(&response)) {
      if (take(response)) continue;
      context.TryCancel();
      while (reader->Read(&response)) {
      }
      static_cast<void>(reader->Finish().ok());  // It was cancelled here.
      return absl::OkStatus();
    }
    absl::Status status = FromGrpcStatus(reader->Finish());
    if (status.ok() && request.follow()) status = absl::UnavailableError("the coordinator ended the stream");
    return status.ok() ? status : Explain(status);
  }

 private:
  // What was said of a call that failed, with the address where the coordinator cannot be reached.
  absl::Status Explain(const absl::Status& status) const {
    if (status.code() != absl::StatusCode::kUnavailable && status.code() != absl::StatusCode::kDeadlineExceeded) {
      return status;
    }
    if (absl::IsUnavailable(status)) {
      // gRPC says no more than that the connection was closed.
      const absl::Status fault = link_.Diagnose();
      if (!fault.ok() && !absl::IsUnavailable(fault)) return fault;
    }
    return absl::Status(status.code(),
                        absl::StrFormat("cannot reach the coordinator at %s: %s; check that it runs and the address "
                                        "(--coordinator or DILOCO_COORDINATOR)",
                                        link_.address(), std::string(status.message())));
  }

  const CoordinatorLink link_;
  const std::string run_id_;
  const absl::Duration timeout_;
  const std::unique_ptr<Stub> stub_;
};

AdminClient::AdminClient(const std::shared_ptr<grpc::Channel>& channel, CoordinatorLink link, std::string run_id,
                         absl::Duration timeout)
    : caller_(std::make_unique<const Caller>(channel, std::move(link), std::move(run_id), timeout)) {}

AdminClient::~AdminClient() = default;

absl::StatusOr<v1::GetStatusResponse> AdminClient::GetStatus() const {
  return caller_->Call(&Stub::GetStatus, v1::GetStatusRequest());
}

absl::StatusOr<v1::ListRoundsResponse> AdminClient::ListRounds(uint32_t limit) const {
  v1::ListRoundsRequest request;
  request.set_limit(limit);
  return caller_->Call(&Stub::ListRounds, std::move(request));
}

absl::StatusOr<v1::DescribeRoundResponse> AdminClient::DescribeRound(int64_t round) const {
  v1::DescribeRoundRequest request;
  request.set_round(round);
  return caller_->Call(&Stub::DescribeRound, std::move(request));
}

absl::StatusOr<v1::ListWorkersResponse> AdminClient::ListWorkers() const {
  return caller_->Call(&Stub::ListWorkers, v1::ListWorkersRequest());
}

absl::StatusOr<v1::GetConfigResponse> AdminClient::GetConfig() const {
  return caller_->Call(&Stub::GetConfig, v1::GetConfigRequest());
}

absl::StatusOr<v1::DescribeWorkerResponse> AdminClient::DescribeWorker(const std::string& worker) const {
  v1::DescribeWorkerRequest request;
  request.set_worker_id(worker);
  return caller_->Call(&Stub::DescribeWorker, std::move(request));
}

absl::StatusOr<v1::ListCheckpointsResponse> AdminClient::ListCheckpoints() const {
  return caller_->Call(&Stub::ListCheckpoints, v1::ListCheckpointsRequest());
}

absl::StatusOr<v1::SaveCheckpointResponse> AdminClient::SaveCheckpoint() const {
  return caller_->Call(&Stub::SaveCheckpoint, v1::SaveCheckpointRequest());
}

absl::StatusOr<v1::DrainWorkerResponse> AdminClient::DrainWorker(const std::string& worker) const {
  v1::DrainWorkerRequest request;
  request.set_worker_id(worker);
  return caller_->Call(&Stub::DrainWorker, std::move(request));
}

absl::StatusOr<v1::EvictWorkerResponse> AdminClient::EvictWorker(const std::string& worker) const {
  v1::EvictWorkerRequest request;
  request.set_worker_id(worker);
  return caller_->Call(&Stub::EvictWorker, std::move(request));
}

absl::StatusOr<v1::AdmitWorkerResponse> AdminClient::AdmitWorker(const std::string& worker) const {
  v1::AdmitWorkerRequest request;
  request.set_worker_id(worker);
  return caller_->Call(&Stub::AdmitWorker, std::move(request));
}

absl::StatusOr<v1::RecoverConsensusResponse> AdminClient::RecoverConsensus(
    const v1::RecoverConsensusRequest& request) const {
  return caller_->Call(&Stub::RecoverConsensus, request);
}

absl::StatusOr<v1::PauseRunResponse> AdminClient::PauseRun() const {
  return caller_->Call(&Stub::PauseRun, v1::PauseRunRequest());
}

absl::StatusOr<v1::ResumeRunResponse> AdminClient::ResumeRun() const {
  return caller_->Call(&Stub::ResumeRun, v1::ResumeRunRequest());
}

absl::StatusOr<v1::StopRunResponse> AdminClient::StopRun() const {
  return caller_->Call(&Stub::StopRun, v1::StopRunRequest());
}

absl::StatusOr<v1::ExtendRunResponse> AdminClient::ExtendRun(int64_t rounds) const {
  v1::ExtendRunRequest request;
  request.set_rounds(rounds);
  return caller_->Call(&Stub::ExtendRun, std::move(request));
}

absl::StatusOr<v1::SetConfigResponse> AdminClient::SetConfig(const v1::SetConfigRequest& request) const {
  return caller_->Call(&Stub::SetConfig, request);
}

absl::Status AdminClient::WatchEvents(v1::WatchEventsRequest request,
                                      const std::function<bool(const v1::WatchEventsResponse&)>& take) const {
  return caller_->WatchEvents(std::move(request), take);
}

}  // namespace diloco
