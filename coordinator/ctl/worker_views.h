// What the commands about workers print: message in, text out. Pure.
#pragma once

#include <string>

#include "coordinator/ctl/view_options.h"
#include "diloco/v1/admin.pb.h"

namespace diloco {

std::string WorkerListText(const v1::ListWorkersResponse& workers, const ViewOptions& options = {});

// Everything that is known of one. Neighbouring fragments of which a round has the same are one line.
std::string WorkerText(const v1::DescribeWorkerResponse& worker, const ViewOptions& options = {});

}  // namespace diloco
