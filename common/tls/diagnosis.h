// Why a connection to the coordinator does not come about. gRPC says no more than that it was closed; a handshake of
// our own finds the fault and puts it into one sentence.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/net/host_port.h"
#include "common/tls/tls_files.h"

namespace diloco {

// Connects to `address` once, as `tls` says (not given: plaintext), and says what a coordinator there objects to, or
// what there is to object to it. Blocks at most `deadline`, and as long as the resolver takes.
// OK: a connection comes about, or would. Errors, each naming the address or the file:
//   kUnavailable       the network's or the peer's fault, which may pass: refused, no answer, closed in the middle
//   kInvalidArgument   ours: a file (see CheckTlsFiles), TLS where the coordinator speaks plaintext, or the reverse
//   kUnauthenticated   the coordinator does not accept our certificate, or its own is not what it has to be
absl::Status DiagnoseConnection(const HostPort& address, const TlsFiles& tls, absl::Duration deadline);

}  // namespace diloco
