// `status --watch`: what it shows of one look at the run, and what it says at the end. Pure.
#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"

#include "common/base/clock.h"
#include "coordinator/ctl/table.h"
#include "diloco/v1/admin.pb.h"

namespace diloco {

// When the run will have committed all rounds, from the rounds committed while watching and never from those before:
// from the first commit that was seen to the newest one. Not thread-safe.
class EtaEstimator {
 public:
  void Observe(MonotonicTime now, int64_t rounds_committed);
  // Nothing until two commits were seen; never negative.
  std::optional<absl::Duration> Remaining(MonotonicTime now, int64_t rounds_total) const;

 private:
  struct Sight {
    MonotonicTime time;
    int64_t rounds = 0;
  };
  std::optional<int64_t> before_;  // Rounds at the first look, whose commit was not seen.
  std::optional<Sight> first_;
  std::optional<Sight> newest_;
};

// True when nothing more will come: the run has ended, its final checkpoint is written, and no worker is alive (one
// that evaluates leaves after its last report). `status` is the later of the two looks.
bool HasEnded(const v1::GetStatusResponse& status, const v1::ListWorkersResponse& workers);

// For a terminal, which shows it in the place of the one before.
std::string WatchTable(const v1::GetStatusResponse& status, const v1::ListWorkersResponse& workers,
                       std::optional<absl::Duration> eta, Colors colors = Colors::kOff);

// For a log: a line for the run and one a worker.
std::string WatchLines(const v1::GetStatusResponse& status, const v1::ListWorkersResponse& workers,
                       std::optional<absl::Duration> eta);

// The end of a run. Workers' numbers are those of their newest sessions.
std::string SummaryText(const v1::GetStatusResponse& status, const v1::ListWorkersResponse& workers);

}  // namespace diloco
