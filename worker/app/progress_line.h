// PURE: what a worker shows of itself on a terminal.
#pragma once

#include <string>

#include "worker/client/worker_status.h"

namespace diloco {

// One line, without a line break: the state, and once training has begun step, loss, tokens/s, utilization, blocked
// seconds, round, staleness and the time left at this session's pace.
std::string ProgressLine(const std::string& worker_id, const WorkerStatus& status);

// The last line: how far this session came, and what that cost.
std::string SummaryLine(const std::string& worker_id, const WorkerStatus& status);

}  // namespace diloco
