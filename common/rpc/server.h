// How the coordinator listens.
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "common/net/host_port.h"

namespace diloco {

struct RpcServerOptions {
  HostPort address;         // Port 0: any free one.
  bool reflection = false;  // Standard server reflection, for tools such as grpcurl.
};

struct RpcServer {
  std::unique_ptr<grpc::Server> server;
  HostPort address;  // Numeric, with the actual port.
};

// Starts a server of these services, which outlive it, with the standard health service; every service is reported as
// SERVING, and so is "". Message sizes, keepalive and memory are bounded; a port in use is an error. Errors: as
// ResolveListenAddress and ProbeListenAddress, for `what`.
absl::StatusOr<RpcServer> StartRpcServer(std::string_view what, const RpcServerOptions& options,
                                         const std::vector<grpc::Service*>& services);

// gRPC writes its own log lines into ours, as debug. Once, at the start of a program.
void RouteGrpcLog();

}  // namespace diloco
