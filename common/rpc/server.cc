#include "common/rpc/server.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <spdlog/spdlog.h>

#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "common/net/listen_address.h"
#include "common/rpc/channel.h"

namespace diloco {
namespace {

// Buffers of the transport, over all connections: every worker may have a few messages under way each way.
constexpr size_t kTransportBytes = size_t{2} << 30;
// Calls that one connection may have open.
constexpr int kMaxCallsPerConnection = 64;

int Milliseconds(absl::Duration duration) { return static_cast<int>(absl::ToInt64Milliseconds(duration)); }

}  // namespace

absl::StatusOr<RpcServer> StartRpcServer(std::string_view what, const RpcServerOptions& options,
                                         const std::vector<grpc::Service*>& services) {
  RpcServer result;
  DILOCO_ASSIGN_OR_RETURN(result.address, ResolveListenAddress(what, options.address));
  DILOCO_RETURN_IF_ERROR(ProbeListenAddress(what, result.address));

  // Both are settings of the process, read when a server is built; reflection cannot be turned off again.
  grpc::EnableDefaultHealthCheckService(true);
  if (options.reflection) grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(result.address.ToString(), grpc::InsecureServerCredentials(), &port);
  for (grpc::Service* service : services) builder.RegisterService(service);
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
  return result;
}

void RouteGrpcLog() {
  gpr_set_log_function([](gpr_log_func_args* args) {
    spdlog::debug("event=grpc severity={} text={}", gpr_log_severity_string(args->severity), Quoted(args->message));
  });
}

}  // namespace diloco
