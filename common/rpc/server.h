// How the coordinator listens.
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/net/host_port.h"
#include "common/tls/tls_files.h"

namespace diloco {

// Calls that one connection may have open; further ones wait at the client until one of these ends.
inline constexpr int kMaxCallsPerConnection = 64;

struct RpcServerOptions {
  HostPort address;         // Port 0: any free one.
  TlsFiles tls;             // Checked before. Not given: plaintext, and whoever connects is believed.
  bool reflection = false;  // Standard server reflection, for tools such as grpcurl.
};

struct NamedService {
  std::string_view name;  // As the health service reports it: v1::WorkerService::service_full_name().
  grpc::Service* service = nullptr;
};

struct RpcServer {
  std::unique_ptr<grpc::Server> server;
  HostPort address;  // Numeric, with the actual port.
};

// Starts a server of these services, which outlive it, with the standard health service; every service is reported as
// SERVING, and so is "". Message sizes, keepalive and memory are bounded; a port in use is an error. Errors: as
// ResolveListenAddress and ProbeListenAddress, for `what`.
absl::StatusOr<RpcServer> StartRpcServer(std::string_view what, const RpcServerOptions& options,
                                         const std::vector<NamedService>& services);

// Reports NOT_SERVING, takes no new calls, gives open ones `deadline` to end and then cancels them. When it returns, no
// code of a service runs any more.
void StopRpcServer(grpc::Server* server, absl::Duration deadline);

// gRPC writes its own log lines into ours, as debug. Once, at the start of a program.
void RouteGrpcLog();

// From here on `failed` hears of TLS handshakes that a server of this process could not finish, in gRPC's words, which
// do not say with whom; nullptr: nobody does. gRPC tells in its log alone, so RouteGrpcLog has to have been called.
// `failed` is called by gRPC's threads, under a lock, and must not block.
void OnHandshakeFailure(std::function<void(std::string_view text)> failed);

}  // namespace diloco
