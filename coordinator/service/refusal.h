// Why a peer is not let in.
#pragma once

#include <cstddef>

namespace diloco {

enum class Refusal : size_t {
  kHandshake,   // No connection: no certificate, or not one that the authority vouches for now.
  kNoIdentity,  // The certificate does not say whose it is.
  kOtherRun,
  kRole,
  kWorkerId,  // A worker spoke for another.
};

// Label values of CoordinatorMetrics, in the order of the enumeration.
inline constexpr const char* kRefusalNames[] = {"handshake", "no_identity", "other_run", "role", "worker_id"};

}  // namespace diloco
