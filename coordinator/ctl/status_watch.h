// `dilococtl status --watch`.
#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "coordinator/ctl/command.h"

namespace diloco {

// Looks again every `interval` until the run has ended, and prints a summary. On a terminal each look replaces the one
// before; with kJson each is a line {"status": GetStatusResponse, "workers": ListWorkersResponse} and there is no
// summary. Errors: those of AdminClient; a coordinator that cannot be reached only after `context.timeout` of it.
absl::StatusOr<ExitCode> WatchStatus(const CommandContext& context, absl::Duration interval);

}  // namespace diloco
