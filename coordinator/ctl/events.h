// Following the events of a run.
#pragma once

#include <functional>

#include "absl/status/status.h"

#include "coordinator/ctl/command.h"

namespace diloco {

// The events that the coordinator keeps, then those that follow, each once, also over an interruption of up to
// `context.timeout`: until `take` returns false, or a run that has ended is gone. Errors: those of AdminClient.
absl::Status FollowEvents(const CommandContext& context,
                          const std::function<bool(const v1::WatchEventsResponse&)>& take);

}  // namespace diloco
