#include "common/rpc/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/limits.h"
#include "common/base/mutex.h"
#include "common/net/listen_address.h"
#include "common/rpc/channel.h"
#include "tests/common/rpc/echo_service.h"

namespace diloco {
namespace {

using testing::HasSubstr;

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

TEST(RpcServerTest, IPv6IsServedAndTheAnyAddressOfItTakesIPv4Too) {
  const absl::StatusOr<HostPort> loopback = ParseHostPort("--listen", "[::1]:0", PortZero::kAllow);
  ASSERT_TRUE(loopback.ok());
  if (!ProbeListenAddress("--listen", *loopback).ok()) GTEST_SKIP() << "this machine has no IPv6";
  EchoService service;
  absl::StatusOr<RpcServer> server = StartRpcServer("--listen", {.address = *loopback}, {Named(&service)});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(Call(MakeChannel(server->address.ToString())).ok());
  EchoService other;
  server = StartRpcServer("--listen", {.address = {"::", 0}}, {Named(&other)});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string port = std::to_string(server->address.port);
  EXPECT_TRUE(Call(MakeChannel("[::1]:" + port)).ok());
  EXPECT_TRUE(Call(MakeChannel("127.0.0.1:" + port)).ok());
}

// Holds every call open, and counts them by connection.
class HoldingService final : public v1::AdminService::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context, const v1::GetStatusRequest*,
                                      v1::GetStatusResponse*) override {
    MutexLock lock(&mutex_);
    open_[context->peer()].push_back(context->DefaultReactor());
    changed_.NotifyAll();
    return open_[context->peer()].back();
  }
  // Waits until so many calls are open over all connections, and returns the most that one of them has.
  size_t AwaitOpen(size_t calls) {
    MutexLock lock(&mutex_);
    while (Total() < calls) changed_.Wait(&mutex_);
    size_t most = 0;
    for (const auto& [peer, reactors] : open_) most = std::max(most, reactors.size());
    return most;
  }
  void FinishAll() {
    MutexLock lock(&mutex_);
    for (auto& [peer, reactors] : open_) {
      for (grpc::ServerUnaryReactor* reactor : reactors) reactor->Finish(grpc::Status::OK);
      reactors.clear();
    }
  }

 private:
  size_t Total() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    size_t total = 0;
    for (const auto& [peer, reactors] : open_) total += reactors.size();
    return total;
  }

  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::vector<grpc::ServerUnaryReactor*>> open_ ABSL_GUARDED_BY(mutex_);
};

TEST(RpcServerTest, AConnectionHasABoundedNumberOfCallsOpen) {
  constexpr size_t kMost = kMaxCallsPerConnection;
  HoldingService service;
  absl::StatusOr<RpcServer> server =
      StartRpcServer("--listen", {.address = {"127.0.0.1", 0}}, {{v1::AdminService::service_full_name(), &service}});
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<std::thread> callers;
  std::atomic<size_t> answered = 0;
  const auto call = [&](const std::shared_ptr<grpc::Channel>& channel) {
    callers.emplace_back([&answered, channel] { answered += Call(channel).ok() ? 1 : 0; });
  };
  const auto full = MakeChannel(server->address.ToString());
  for (size_t i = 0; i < kMost + 1; ++i) call(full);
  EXPECT_EQ(service.AwaitOpen(kMost), kMost);
  // Another connection is served meanwhile; the first one's last call still waits.
  call(MakeChannel(server->address.ToString()));
  EXPECT_EQ(service.AwaitOpen(kMost + 1), kMost);
  service.FinishAll();
  service.AwaitOpen(1);
  service.FinishAll();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(answered, kMost + 2);
}

// A server that permits fewer pings than its clients send ends their connections; it takes a ping for too early by what
// its clock and the network make of it.
TEST(RpcServerTest, ClientsPingHalfAsOftenAsTheServerPermits) { EXPECT_LE(2 * kKeepalivePermitted, kKeepalivePeriod); }

}  // namespace
}  // namespace diloco
