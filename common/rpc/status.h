// Status across the wire. The codes are the same numbers on both sides.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace diloco {

// The text is cut to kMaxReasonBytes, between characters.
grpc::Status ToGrpcStatus(const absl::Status& status);
// A code that this program does not know becomes kUnknown. The text of a peer is cut the same way.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace diloco
