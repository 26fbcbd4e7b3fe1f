// PURE: who holds a certificate, as its one URI SAN says: `spiffe://RUN/ROLE/NAME`, and `spiffe://RUN/coordinator` for
// the coordinator. RUN is the run's id, in the place of SPIFFE's trust domain.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace diloco {

enum class Role {
  kWorker,       // Takes part in the run, as the worker of that name.
  kAdmin,        // Sees and changes the run.
  kViewer,       // Sees it.
  kCoordinator,  // What workers and dilococtl connect to; it has no name.
};

const char* RoleName(Role role);

struct Identity {
  std::string run;
  Role role = Role::kViewer;
  std::string name;  // Empty for the coordinator.

  std::string Uri() const;
  friend bool operator==(const Identity&, const Identity&) = default;
};

// The whole of `uri`: nothing before, after or in between but what the forms above have. Errors, kInvalidArgument.
absl::StatusOr<Identity> ParseIdentity(std::string_view uri);

}  // namespace diloco
