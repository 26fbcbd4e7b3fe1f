// PURE: which role may make which call. The one table; a method without a row does not compile.
#pragma once

#include "common/tls/identity.h"
#include "coordinator/service/method.h"

namespace diloco {

enum class Access {
  kAnyRole,   // Workers, viewers and admins: it changes nothing, and says what each of them may know.
  kTraining,  // Workers, each for itself: every message that names a worker has to name the caller.
  kReading,   // Viewers and admins.
  kChanging,  // Admins: it changes the run.
};

Access AccessOf(Method method);

bool Allows(Access access, Role role);

// "a worker", "a viewer or an admin", ...
const char* WhoIsAllowed(Access access);

}  // namespace diloco
