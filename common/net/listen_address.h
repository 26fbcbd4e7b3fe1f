// What both servers (gRPC and HTTP) need before they listen, so that a port in use is an error with one text.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/net/host_port.h"

namespace diloco {

// The first address of a name, numeric. A server that is given the name itself would bind those of its addresses that
// are free and call that success. May ask the resolver. Errors: kInvalidArgument when the name has no address.
absl::StatusOr<HostPort> ResolveListenAddress(std::string_view what, const HostPort& address);

// OK when `address` (numeric) can be bound now; a socket of its own finds out and is closed again. Errors, which name
// `what` and the address: kAlreadyExists, the port is in use; kInvalidArgument, the address is not of this machine;
// kPermissionDenied; kInternal.
absl::Status ProbeListenAddress(std::string_view what, const HostPort& address);

}  // namespace diloco
