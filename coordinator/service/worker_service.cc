#include "coordinator/service/worker_service.h"

#include <memory>

#include "coordinator/service/checks.h"
#include "coordinator/service/probe_stream.h"
#include "coordinator/service/seed_stream.h"
#include "coordinator/service/session_stream.h"
#include "coordinator/service/snapshot_stream.h"
#include "coordinator/service/subscribe_stream.h"
#include "coordinator/service/unary.h"
#include "coordinator/service/upload_stream.h"

namespace diloco {

grpc::ServerUnaryReactor* WorkerServiceImpl::DescribeRun(grpc::CallbackServerContext* context,
                                                         const v1::DescribeRunRequest* request,
                                                         v1::DescribeRunResponse* response) {
  return AnswerCall(world_, Method::kDescribeRun, context, *request, CheckForm(*request), response,
                    &Driver::DescribeRun);
}

grpc::ServerUnaryReactor* WorkerServiceImpl::Join(grpc::CallbackServerContext* context, const v1::JoinRequest* request,
                                                  v1::JoinResponse* response) {
  return AnswerCall(world_, Method::kJoin, context, *request, CheckForm(*request), response, &Driver::Join);
}

grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse>* WorkerServiceImpl::Session(
    grpc::CallbackServerContext* context) {
  return Launch(std::make_shared<SessionStream>(&world_, context));
}

grpc::ServerBidiReactor<v1::UploadRequest, v1::UploadResponse>* WorkerServiceImpl::Upload(
    grpc::CallbackServerContext* context) {
  return Launch(std::make_shared<UploadStream>(&world_, context));
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* WorkerServiceImpl::Subscribe(grpc::CallbackServerContext* context,
                                                                         const grpc::ByteBuffer* request) {
  return Launch(std::make_shared<SubscribeStream>(&world_, context), *request);
}

grpc::ServerWriteReactor<v1::FetchSnapshotResponse>* WorkerServiceImpl::FetchSnapshot(
    grpc::CallbackServerContext* context, const v1::FetchSnapshotRequest* request) {
  return Launch(std::make_shared<SnapshotStream>(&world_, context), *request);
}

grpc::ServerReadReactor<v1::SeedRequest>* WorkerServiceImpl::Seed(grpc::CallbackServerContext* context,
                                                                  v1::SeedResponse* response) {
  return Launch(std::make_shared<SeedStream>(&world_, context, response));
}

grpc::ServerBidiReactor<v1::ProbeRequest, v1::ProbeResponse>* WorkerServiceImpl::Probe(
    grpc::CallbackServerContext* context) {
  return Launch(std::make_shared<ProbeStream>(&world_, context));
}

}  // namespace diloco
