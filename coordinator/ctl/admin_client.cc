#include "coordinator/ctl/admin_client.h"

#include <grpc/support/time.h>
#include <grpcpp/client_context.h>

#include <utility>

#include "absl/strings/str_format.h"

#include "common/rpc/channel.h"
#include "common/rpc/status.h"

namespace diloco {

AdminClient::AdminClient(std::string address, std::string run_id, absl::Duration timeout)
    : address_(std::move(address)),
      run_id_(std::move(run_id)),
      timeout_(timeout),
      stub_(v1::AdminService::NewStub(MakeChannel(address_))) {}

template <typename Request, typename Response>
absl::StatusOr<Response> AdminClient::Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                                        Response*),
                                           Request request) const {
  request.set_run_id(run_id_);
  grpc::ClientContext context;
  context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                    gpr_time_from_nanos(absl::ToInt64Nanoseconds(timeout_), GPR_TIMESPAN)));
  Response response;
  const absl::Status status = FromGrpcStatus((stub_.get()->*method)(&context, request, &response));
  if (status.ok()) return response;
  if (status.code() != absl::StatusCode::kUnavailable && status.code() != absl::StatusCode::kDeadlineExceeded) {
    return status;
  }
  return absl::Status(status.code(), absl::StrFormat("cannot reach the coordinator at %s: %s; check that it runs and "
                                                     "the address (--coordinator or DILOCO_COORDINATOR)",
                                                     address_, std::string(status.message())));
}

absl::StatusOr<v1::GetStatusResponse> AdminClient::GetStatus() const {
  return Call(&Stub::GetStatus, v1::GetStatusRequest());
}

absl::StatusOr<v1::ListRoundsResponse> AdminClient::ListRounds(uint32_t limit) const {
  v1::ListRoundsRequest request;
  request.set_limit(limit);
  return Call(&Stub::ListRounds, std::move(request));
}

absl::StatusOr<v1::DescribeRoundResponse> AdminClient::DescribeRound(int64_t round) const {
  v1::DescribeRoundRequest request;
  request.set_round(round);
  return Call(&Stub::DescribeRound, std::move(request));
}

absl::StatusOr<v1::ListWorkersResponse> AdminClient::ListWorkers() const {
  return Call(&Stub::ListWorkers, v1::ListWorkersRequest());
}

absl::StatusOr<v1::SaveCheckpointResponse> AdminClient::SaveCheckpoint() const {
  return Call(&Stub::SaveCheckpoint, v1::SaveCheckpointRequest());
}

absl::StatusOr<v1::DrainWorkerResponse> AdminClient::DrainWorker(const std::string& worker) const {
  v1::DrainWorkerRequest request;
  request.set_worker_id(worker);
  return Call(&Stub::DrainWorker, std::move(request));
}

absl::StatusOr<v1::EvictWorkerResponse> AdminClient::EvictWorker(const std::string& worker) const {
  v1::EvictWorkerRequest request;
  request.set_worker_id(worker);
  return Call(&Stub::EvictWorker, std::move(request));
}

absl::StatusOr<v1::AdmitWorkerResponse> AdminClient::AdmitWorker(const std::string& worker) const {
  v1::AdmitWorkerRequest request;
  request.set_worker_id(worker);
  return Call(&Stub::AdmitWorker, std::move(request));
}

absl::StatusOr<v1::RecoverConsensusResponse> AdminClient::RecoverConsensus(
    const v1::RecoverConsensusRequest& request) const {
  return Call(&Stub::RecoverConsensus, request);
}

}  // namespace diloco
