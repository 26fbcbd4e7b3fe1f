// What the operating system says about a process.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "absl/status/statusor.h"

namespace diloco::testing {

struct ProcessFacts {
  int64_t resident_bytes = 0;
  int64_t open_files = 0;
  int64_t threads = 0;
  double cpu_seconds = 0;  // User and system.
};

// Errors: kNotFound when there is no such process.
absl::StatusOr<ProcessFacts> ReadProcessFacts(pid_t pid);

}  // namespace diloco::testing
