// v1::AdminService over the driver: decode, check, hand on. No state of the run.
#pragma once

#include "coordinator/service/service_world.h"
#include "diloco/v1/admin.grpc.pb.h"

namespace diloco {

class AdminServiceImpl final : public v1::AdminService::CallbackService {
 public:
  explicit AdminServiceImpl(const ServiceWorld* world) : world_(*world) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context, const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;
  grpc::ServerUnaryReactor* ListRounds(grpc::CallbackServerContext* context, const v1::ListRoundsRequest* request,
                                       v1::ListRoundsResponse* response) override;
  grpc::ServerUnaryReactor* DescribeRound(grpc::CallbackServerContext* context, const v1::DescribeRoundRequest* request,
                                          v1::DescribeRoundResponse* response) override;
  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext* context, const v1::ListWorkersRequest* request,
                                        v1::ListWorkersResponse* response) override;
  grpc::ServerUnaryReactor* DescribeWorker(grpc::CallbackServerContext* context,
                                           const v1::DescribeWorkerRequest* request,
                                           v1::DescribeWorkerResponse* response) override;
  grpc::ServerUnaryReactor* SaveCheckpoint(grpc::CallbackServerContext* context,
                                           const v1::SaveCheckpointRequest* request,
                                           v1::SaveCheckpointResponse* response) override;
  grpc::ServerUnaryReactor* ListCheckpoints(grpc::CallbackServerContext* context,
                                            const v1::ListCheckpointsRequest* request,
                                            v1::ListCheckpointsResponse* response) override;
  grpc::ServerUnaryReactor* DrainWorker(grpc::CallbackServerContext* context, const v1::DrainWorkerRequest* request,
                                        v1::DrainWorkerResponse* response) override;
  grpc::ServerUnaryReactor* EvictWorker(grpc::CallbackServerContext* context, const v1::EvictWorkerRequest* request,
                                        v1::EvictWorkerResponse* response) override;
  grpc::ServerUnaryReactor* AdmitWorker(grpc::CallbackServerContext* context, const v1::AdmitWorkerRequest* request,
                                        v1::AdmitWorkerResponse* response) override;
  grpc::ServerUnaryReactor* RecoverConsensus(grpc::CallbackServerContext* context,
                                             const v1::RecoverConsensusRequest* request,
                                             v1::RecoverConsensusResponse* response) override;
  grpc::ServerUnaryReactor* PauseRun(grpc::CallbackServerContext* context, const v1::PauseRunRequest* request,
                                     v1::PauseRunResponse* response) override;
  grpc::ServerUnaryReactor* ResumeRun(grpc::CallbackServerContext* context, const v1::ResumeRunRequest* request,
                                      v1::ResumeRunResponse* response) override;
  grpc::ServerUnaryReactor* StopRun(grpc::CallbackServerContext* context, const v1::StopRunRequest* request,
                                    v1::StopRunResponse* response) override;
  grpc::ServerUnaryReactor* ExtendRun(grpc::CallbackServerContext* context, const v1::ExtendRunRequest* request,
                                      v1::ExtendRunResponse* response) override;
  grpc::ServerUnaryReactor* SetConfig(grpc::CallbackServerContext* context, const v1::SetConfigRequest* request,
                                      v1::SetConfigResponse* response) override;
  grpc::ServerUnaryReactor* GetConfig(grpc::CallbackServerContext* context, const v1::GetConfigRequest* request,
                                      v1::GetConfigResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchEventsResponse>* WatchEvents(grpc::CallbackServerContext* context,
                                                                 const v1::WatchEventsRequest* request) override;

 private:
  const ServiceWorld& world_;
};

}  // namespace diloco
