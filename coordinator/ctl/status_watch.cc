#include "coordinator/ctl/status_watch.h"

#include <optional>
#include <string>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "coordinator/ctl/watch.h"
#include "coordinator/ctl/watch_view.h"

namespace diloco {
namespace {

struct Look {
  v1::ListWorkersResponse workers;
  v1::GetStatusResponse status;
};

// Workers first: what one reported before it left is in the status then.
absl::StatusOr<Look> LookAtRun(const AdminClient& client) {
  Look look;
  DILOCO_ASSIGN_OR_RETURN(look.workers, client.ListWorkers());
  DILOCO_ASSIGN_OR_RETURN(look.status, client.GetStatus());
  return look;
}

std::string JsonLine(const Look& look) {
  std::string status = ToJson(look.status, JsonStyle::kOneLine);
  status.pop_back();
  std::string workers = ToJson(look.workers, JsonStyle::kOneLine);
  workers.pop_back();
  return absl::StrFormat("{\"status\":%s,\"workers\":%s}\n", status, workers);
}

}  // namespace

absl::StatusOr<ExitCode> WatchStatus(const CommandContext& context, absl::Duration interval) {
  EtaEstimator estimator;
  Look look;
  DILOCO_RETURN_IF_ERROR(Watch(context, interval, [&]() -> absl::StatusOr<Frame> {
    DILOCO_ASSIGN_OR_RETURN(look, LookAtRun(context.client));
    const MonotonicTime now = context.io.clock->Now();
    estimator.Observe(now, look.status.rounds_committed());
    const std::optional<absl::Duration> eta = estimator.Remaining(now, look.status.rounds_total());
    return Frame{.json = JsonLine(look),
                 .screen = WatchTable(look.status, look.workers, eta, ViewOf(context).colors),
                 .lines = WatchLines(look.status, look.workers, eta),
                 .last = HasEnded(look.status, look.workers)};
  }));
  if (context.format != OutputFormat::kJson) context.io.out(SummaryText(look.status, look.workers));
  return ExitCode::kOk;
}

}  // namespace diloco
