// Exit codes of every program; the README's table and the tests follow this enumeration.
#pragma once

#include "absl/status/status.h"

namespace diloco {

enum class ExitCode : int {
  kOk = 0,
  kFailure = 1,        // Anything without a code of its own.
  kUsage = 2,          // A flag, the configuration or an input file is wrong.
  kUnreachable = 3,    // The coordinator cannot be reached.
  kNotFound = 4,       // What was named does not exist: a run, a round, a worker, a data folder.
  kNotAllowed = 5,     // Not allowed: id in use or evicted, another layout, port taken, a certificate not accepted.
  kUnhealthy = 6,      // `dilococtl status`: the run is held or the coordinator is not serving.
  kInterrupted = 130,  // Ctrl-C.
};

// kInvalidArgument and kOutOfRange: kUsage; kUnavailable and kDeadlineExceeded: kUnreachable; kNotFound: kNotFound;
// kFailedPrecondition, kAlreadyExists, kAborted, kPermissionDenied, kUnauthenticated: kNotAllowed;
// kCancelled: kInterrupted; others: kFailure.
ExitCode ExitCodeFor(const absl::Status& status);

}  // namespace diloco
