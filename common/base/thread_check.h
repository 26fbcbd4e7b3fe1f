// Whether a process may start the threads that it needs, asked before it depends on them: libraries end the process or
// wait for ever when one of theirs does not start.
#pragma once

#include "absl/status/status.h"

namespace diloco {

// OK when `count` more threads can run at once; they are started and end again. Errors: kResourceExhausted, with how
// many can and what to raise.
absl::Status CheckThreadsStart(int count);

}  // namespace diloco
