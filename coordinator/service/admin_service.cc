#include "coordinator/service/admin_service.h"

#include <memory>

#include "coordinator/service/checks.h"
#include "coordinator/service/event_stream.h"
#include "coordinator/service/unary.h"

namespace diloco {

grpc::ServerUnaryReactor* AdminServiceImpl::GetStatus(grpc::CallbackServerContext* context,
                                                      const v1::GetStatusRequest* request,
                                                      v1::GetStatusResponse* response) {
  return AnswerCall(world_, Method::kGetStatus, context, *request, CheckAdminForm(*request), response,
                    &Driver::GetStatus);
}

grpc::ServerUnaryReactor* AdminServiceImpl::ListRounds(grpc::CallbackServerContext* context,
                                                       const v1::ListRoundsRequest* request,
                                                       v1::ListRoundsResponse* response) {
  return AnswerCall(world_, Method::kListRounds, context, *request, CheckAdminForm(*request), response,
                    &Driver::ListRounds);
}

grpc::ServerUnaryReactor* AdminServiceImpl::DescribeRound(grpc::CallbackServerContext* context,
                                                          const v1::DescribeRoundRequest* request,
                                                          v1::DescribeRoundResponse* response) {
  return AnswerCall(world_, Method::kDescribeRound, context, *request, CheckAdminForm(*request), response,
                    &Driver::DescribeRound);
}

grpc::ServerUnaryReactor* AdminServiceImpl::ListWorkers(grpc::CallbackServerContext* context,
                                                        const v1::ListWorkersRequest* request,
                                                        v1::ListWorkersResponse* response) {
  return AnswerCall(world_, Method::kListWorkers, context, *request, CheckAdminForm(*request), response,
                    &Driver::ListWorkers);
}

grpc::ServerUnaryReactor* AdminServiceImpl::DescribeWorker(grpc::CallbackServerContext* context,
                                                           const v1::DescribeWorkerRequest* request,
                                                           v1::DescribeWorkerResponse* response) {
  return AnswerCall(world_, Method::kDescribeWorker, context, *request, CheckWorkerForm(*request), response,
                    &Driver::DescribeWorker);
}

grpc::ServerUnaryReactor* AdminServiceImpl::SaveCheckpoint(grpc::CallbackServerContext* context,
                                                           const v1::SaveCheckpointRequest* request,
                                                           v1::SaveCheckpointResponse* response) {
  return AnswerCall(world_, Method::kSaveCheckpoint, context, *request, CheckAdminForm(*request), response,
                    &Driver::SaveCheckpoint);
}

grpc::ServerUnaryReactor* AdminServiceImpl::ListCheckpoints(grpc::CallbackServerContext* context,
                                                            const v1::ListCheckpointsRequest* request,
                                                            v1::ListCheckpointsResponse* response) {
  return AnswerCall(world_, Method::kListCheckpoints, context, *request, CheckAdminForm(*request), response,
                    &Driver::ListCheckpoints);
}

grpc::ServerUnaryReactor* AdminServiceImpl::DrainWorker(grpc::CallbackServerContext* context,
                                                        const v1::DrainWorkerRequest* request,
                                                        v1::DrainWorkerResponse* response) {
  return AnswerCall(world_, Method::kDrainWorker, context, *request, CheckWorkerForm(*request), response,
                    &Driver::DrainWorker);
}

grpc::ServerUnaryReactor* AdminServiceImpl::EvictWorker(grpc::CallbackServerContext* context,
                                                        const v1::EvictWorkerRequest* request,
                                                        v1::EvictWorkerResponse* response) {
  return AnswerCall(world_, Method::kEvictWorker, context, *request, CheckWorkerForm(*request), response,
                    &Driver::EvictWorker);
}

grpc::ServerUnaryReactor* AdminServiceImpl::AdmitWorker(grpc::CallbackServerContext* context,
                                                        const v1::AdmitWorkerRequest* request,
                                                        v1::AdmitWorkerResponse* response) {
  return AnswerCall(world_, Method::kAdmitWorker, context, *request, CheckWorkerForm(*request), response,
                    &Driver::AdmitWorker);
}

grpc::ServerUnaryReactor* AdminServiceImpl::RecoverConsensus(grpc::CallbackServerContext* context,
                                                             const v1::RecoverConsensusRequest* request,
                                                             v1::RecoverConsensusResponse* response) {
  const absl::Status form = request->worker_id().empty() ? CheckAdminForm(*request) : CheckWorkerForm(*request);
  return AnswerCall(world_, Method::kRecoverConsensus, context, *request, form, response, &Driver::RecoverConsensus);
}

grpc::ServerUnaryReactor* AdminServiceImpl::PauseRun(grpc::CallbackServerContext* context,
                                                     const v1::PauseRunRequest* request,
                                                     v1::PauseRunResponse* response) {
  return AnswerCall(world_, Method::kPauseRun, context, *request, CheckAdminForm(*request), response,
                    &Driver::PauseRun);
}

grpc::ServerUnaryReactor* AdminServiceImpl::ResumeRun(grpc::CallbackServerContext* context,
                                                      const v1::ResumeRunRequest* request,
                                                      v1::ResumeRunResponse* response) {
  return AnswerCall(world_, Method::kResumeRun, context, *request, CheckAdminForm(*request), response,
                    &Driver::ResumeRun);
}

grpc::ServerUnaryReactor* AdminServiceImpl::StopRun(grpc::CallbackServerContext* context,
                                                    const v1::StopRunRequest* request, v1::StopRunResponse* response) {
  return AnswerCall(world_, Method::kStopRun, context, *request, CheckAdminForm(*request), response, &Driver::StopRun);
}

grpc::ServerUnaryReactor* AdminServiceImpl::ExtendRun(grpc::CallbackServerContext* context,
                                                      const v1::ExtendRunRequest* request,
                                                      v1::ExtendRunResponse* response) {
  return AnswerCall(world_, Method::kExtendRun, context, *request, CheckAdminForm(*request), response,
                    &Driver::ExtendRun);
}

grpc::ServerUnaryReactor* AdminServiceImpl::SetConfig(grpc::CallbackServerContext* context,
                                                      const v1::SetConfigRequest* request,
                                                      v1::SetConfigResponse* response) {
  return AnswerCall(world_, Method::kSetConfig, context, *request, CheckForm(*request), response, &Driver::SetConfig);
}

grpc::ServerUnaryReactor* AdminServiceImpl::GetConfig(grpc::CallbackServerContext* context,
                                                      const v1::GetConfigRequest* request,
                                                      v1::GetConfigResponse* response) {
  return AnswerCall(world_, Method::kGetConfig, context, *request, CheckAdminForm(*request), response,
                    &Driver::GetConfig);
}

grpc::ServerWriteReactor<v1::WatchEventsResponse>* AdminServiceImpl::WatchEvents(
    grpc::CallbackServerContext* context, const v1::WatchEventsRequest* request) {
  return Launch(std::make_shared<EventStream>(&world_, context), *request);
}

}  // namespace diloco
