// Deadlines of calls.
#pragma once

#include <grpc/support/time.h>

#include "absl/time/time.h"

namespace diloco {

// `timeout` from now, on the monotonic clock, for ClientContext::set_deadline.
inline gpr_timespec DeadlineAfter(absl::Duration timeout) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(timeout), GPR_TIMESPAN));
}

}  // namespace diloco
