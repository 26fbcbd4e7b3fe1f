// v1::WorkerService over the driver: decode, check, hand on. No state of the run.
#pragma once

#include "coordinator/service/service_world.h"
#include "diloco/v1/worker.grpc.pb.h"

namespace diloco {

// Subscribe is raw: what it sends is serialised already.
class WorkerServiceImpl final
    : public v1::WorkerService::WithRawCallbackMethod_Subscribe<v1::WorkerService::CallbackService> {
 public:
  explicit WorkerServiceImpl(const ServiceWorld* world) : world_(*world) {}

  grpc::ServerUnaryReactor* DescribeRun(grpc::CallbackServerContext* context, const v1::DescribeRunRequest* request,
                                        v1::DescribeRunResponse* response) override;
  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context, const v1::JoinRequest* request,
                                 v1::JoinResponse* response) override;
  grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse>* Session(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<v1::UploadRequest, v1::UploadResponse>* Upload(grpc::CallbackServerContext* context) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Subscribe(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request) override;
  grpc::ServerWriteReactor<v1::FetchSnapshotResponse>* FetchSnapshot(grpc::CallbackServerContext* context,
                                                                     const v1::FetchSnapshotRequest* request) override;
  grpc::ServerReadReactor<v1::SeedRequest>* Seed(grpc::CallbackServerContext* context,
                                                 v1::SeedResponse* response) override;
  grpc::ServerBidiReactor<v1::ProbeRequest, v1::ProbeResponse>* Probe(grpc::CallbackServerContext* context) override;

 private:
  const ServiceWorld& world_;
};

}  // namespace diloco
