// Who has a lock file, for those who only look.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace diloco {

// What the process that holds the lock (FileSystem::Lock) wrote into the file, or "another process"; "": nobody holds
// it, or there is no such file. Writes nothing; a process that tries to take the lock in the same microseconds may find
// it taken. Errors: the operating system's.
absl::StatusOr<std::string> LockHolder(const std::string& path);

}  // namespace diloco
