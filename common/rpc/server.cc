#include "common/rpc/server.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <grpcpp/resource_quota.h>

#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "common/net/listen_address.h"
#include "common/rpc/channel.h"
#include "common/rpc/credentials.h"

namespace diloco {
namespace {

// Buffers of the transport, over all connections: every worker may have a few messages under way each way.
constexpr size_t kTransportBytes = size_t{2} << 30;

// Linking the reflection library puts its plugin into every server; this takes it out again.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins, [](const auto& plugin) { return plugin->name() == "proto_server_reflection"; });
  }
};

int Milliseconds(absl::Duration duration) { return static_cast<int>(absl::ToInt64Milliseconds(duration)); }

// How gRPC begins its line about a handshake that failed.
constexpr char kHandshakeFailed[] = "Handshake failed";

// gRPC's log is the process's, so who listens to it is as well.
struct HandshakeObserver {
  Mutex mutex;
  std::function<void(std::string_view)> failed ABSL_GUARDED_BY(mutex);
};
HandshakeObserver& TheHandshakeObserver() {
  static auto* observer = new HandshakeObserver;  // gRPC may log until the process has ended.
  return *observer;
}

void TellHandshakeFailure(std::string_view text) {
  HandshakeObserver& observer = TheHandshakeObserver();
  MutexLock lock(&observer.mutex);
  if (observer.failed) observer.failed(text);
}

}  // namespace

absl::StatusOr<RpcServer> StartRpcServer(std::string_view what, const RpcServerOptions& options,
                                         const std::vector<NamedService>& services) {
  RpcServer result;
  DILOCO_ASSIGN_OR_RETURN(result.address, ResolveListenAddress(what, options.address));
  DILOCO_RETURN_IF_ERROR(ProbeListenAddress(what, result.address));

  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  if (!options.reflection) builder.SetOption(std::make_unique<WithoutReflection>());
  int port = 0;
  builder.AddListeningPort(result.address.ToString(),
                           options.tls.given() ? TlsServerCredentials(options.tls) : grpc::InsecureServerCredentials(),
                           &port);
  for (const NamedService& service : services) builder.RegisterService(service.service);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.SetResourceQuota(grpc::ResourceQuota("diloco").Resize(kTransportBytes));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxCallsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(kKeepalivePeriod));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(kKeepaliveTimeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, Milliseconds(kKeepalivePermitted));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  result.server = builder.BuildAndStart();
  if (result.server == nullptr || port == 0) {
    // Free a moment ago, so somebody was faster.
    return absl::AlreadyExistsError(absl::StrFormat("%s %s: the port is in use", what, result.address.ToString()));
  }
  result.address.port = port;
  for (const NamedService& service : services) {
    result.server->GetHealthCheckService()->SetServingStatus(std::string(service.name), true);
  }
  return result;
}

void StopRpcServer(grpc::Server* server, absl::Duration deadline) {
  server->GetHealthCheckService()->Shutdown();
  server->Shutdown(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(Milliseconds(deadline), GPR_TIMESPAN)));
  server->Wait();
}

void RouteGrpcLog() {
  gpr_set_log_function([](gpr_log_func_args* args) {
    if (std::strstr(args->message, kHandshakeFailed) != nullptr) TellHandshakeFailure(args->message);
    LogDebug("grpc", {{"severity", gpr_log_severity_string(args->severity)}, {"text", args->message}});
  });
}

void OnHandshakeFailure(std::function<void(std::string_view text)> failed) {
  HandshakeObserver& observer = TheHandshakeObserver();
  MutexLock lock(&observer.mutex);
  observer.failed = std::move(failed);
}

}  // namespace diloco
