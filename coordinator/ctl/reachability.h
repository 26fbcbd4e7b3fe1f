// The first steps of a preflight, each by itself: is there a machine of that name, does its port take connections, does
// a gRPC server behind it say that it serves?
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/net/host_port.h"

namespace diloco {

// Numeric addresses of the host. It takes as long as the system's resolver does. Errors: kNotFound.
absl::StatusOr<std::vector<std::string>> ResolveHost(const HostPort& address);

// How long a TCP connection to the first address that takes one took. Errors: kUnavailable.
absl::StatusOr<absl::Duration> ConnectTcp(const HostPort& address, absl::Duration timeout);

// OK: the standard health service says SERVING, of everything. Errors: kUnavailable: it says another thing; the call's.
absl::Status CheckHealth(const std::shared_ptr<grpc::Channel>& channel, absl::Duration timeout);

}  // namespace diloco
