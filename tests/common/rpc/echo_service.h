// A server and calls for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/rpc/status.h"
#include "diloco/v1/admin.grpc.pb.h"

namespace diloco {

// Answers GetStatus with the caller's own address, and with the text that it sent.
class EchoService final : public v1::AdminService::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context, const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override {
    response->set_run_id(context->peer());
    response->set_reason(request->run_id());
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

inline NamedService Named(EchoService* service) { return {v1::AdminService::service_full_name(), service}; }

inline RpcServer StartOrDie(EchoService* service, int port = 0) {
  absl::StatusOr<RpcServer> server = StartRpcServer("--listen", {.address = {"127.0.0.1", port}}, {Named(service)});
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : RpcServer();
}

inline absl::StatusOr<v1::GetStatusResponse> Call(const std::shared_ptr<grpc::Channel>& channel, size_t bytes = 0) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  v1::GetStatusRequest request;
  request.set_run_id(std::string(bytes, 'x'));
  v1::GetStatusResponse response;
  const absl::Status status =
      FromGrpcStatus(v1::AdminService::NewStub(channel)->GetStatus(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

}  // namespace diloco
