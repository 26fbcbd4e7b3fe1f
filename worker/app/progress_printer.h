// Shows a worker's progress on stdout: on a terminal one line that is rewritten in place, else a line now and then.
#pragma once

#include <string>

#include "absl/time/time.h"

#include "common/base/clock.h"
#include "worker/app/options.h"
#include "worker/client/worker_status.h"

namespace diloco {

// Between two plain lines.
inline constexpr absl::Duration kPlainInterval = absl::Seconds(10);

// For one thread.
class ProgressPrinter {
 public:
  ProgressPrinter(ProgressStyle style, std::string worker_id, const Clock* clock);
  void Show(const WorkerStatus& status);
  // The summary, on a line of its own. Nothing if nothing was ever shown.
  void Finish();

 private:
  const bool enabled_;
  const bool in_place_;
  const std::string worker_id_;
  const Clock* const clock_;
  bool shown_ = false;
  MonotonicTime printed_at_;
  WorkerStatus last_;
};

}  // namespace diloco
