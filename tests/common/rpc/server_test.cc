#include "common/rpc/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>

#include "common/base/limits.h"
#include "common/rpc/channel.h"
#include "common/rpc/status.h"
#include "diloco/v1/admin.grpc.pb.h"

namespace diloco {
namespace {

using testing::HasSubstr;

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

NamedService Named(EchoService* service) { return {v1::AdminService::service_full_name(), service}; }

RpcServer StartOrDie(EchoService* service, int port = 0) {
  absl::StatusOr<RpcServer> server = StartRpcServer("--listen", {.address = {"127.0.0.1", port}}, {Named(service)});
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : RpcServer();
}

absl::StatusOr<v1::GetStatusResponse> Call(const std::shared_ptr<grpc::Channel>& channel, size_t bytes = 0) {
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

TEST(RpcServerTest, ATakenPortIsAnErrorThatNamesIt) {
  EchoService service;
  const RpcServer first = StartOrDie(&service);
  EchoService other;
  const absl::StatusOr<RpcServer> second =
      StartRpcServer("--listen", {.address = {"127.0.0.1", first.address.port}}, {Named(&other)});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("--listen " + first.address.ToString()));
}

TEST(RpcServerTest, ChannelsToOneTargetAreConnectionsOfTheirOwn) {
  EchoService service;
  const RpcServer server = StartOrDie(&service);
  const auto one = MakeChannel(server.address.ToString());
  const auto two = MakeChannel(server.address.ToString());
  const absl::StatusOr<v1::GetStatusResponse> first = Call(one);
  const absl::StatusOr<v1::GetStatusResponse> second = Call(two);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_NE(first->run_id(), second->run_id());
  EXPECT_EQ(first->run_id(), Call(one)->run_id());
}

TEST(RpcServerTest, AMessageUpToTheLimitPassesBothWaysAndALargerOneDoesNot) {
  EchoService service;
  const RpcServer server = StartOrDie(&service);
  const auto channel = MakeChannel(server.address.ToString());
  // 100 bytes for the other fields of the answer.
  EXPECT_TRUE(Call(channel, kMaxMessageBytes - 100).ok());
  EXPECT_EQ(Call(channel, kMaxMessageBytes).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(RpcServerTest, AProxyInTheEnvironmentIsNotUsed) {
  // Port 9 (discard): a channel that asked a proxy there would not connect.
  for (const char* variable : {"http_proxy", "https_proxy", "grpc_proxy"}) setenv(variable, "http://127.0.0.1:9", 1);
  EchoService service;
  const RpcServer server = StartOrDie(&service);
  EXPECT_TRUE(Call(MakeChannel(server.address.ToString())).ok());
  for (const char* variable : {"http_proxy", "https_proxy", "grpc_proxy"}) unsetenv(variable);
}

// 127.1 is looked up like a name, but needs neither /etc/hosts nor a name server.
TEST(RpcServerTest, ListensOnANameToo) {
  EchoService service;
  absl::StatusOr<RpcServer> server = StartRpcServer("--listen", {.address = {"127.1", 0}}, {Named(&service)});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_NE(server->address.port, 0);
  EXPECT_TRUE(Call(MakeChannel(server->address.ToString())).ok());
}

}  // namespace
}  // namespace diloco
