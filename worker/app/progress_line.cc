#include "worker/app/progress_line.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace diloco {
namespace {

// 42s, 3m07s, 5h09m, 12d04h: two units are enough.
std::string TimeLeft(double seconds) {
  constexpr double kLongest = 1000.0 * 24 * 3600;
  if (!(seconds < kLongest)) {
    return "unknown";
  }
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  if (whole < 60) {
    return absl::StrFormat("%ds", whole);
  }
  if (whole < 3600) {
    return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  }
  if (whole < 24 * 3600) {
    return absl::StrFormat("%dh%02dm", whole / 3600, whole / 60 % 60);
  }
  return absl::StrFormat("%dd%02dh", whole / (24 * 3600), whole / 3600 % 24);
}

// Steps of earlier sessions say nothing about this one's pace.
std::string Remaining(const WorkerStatus& status) {
  const double seconds = status.wall_seconds + status.evaluation_seconds;
  return TimeLeft(seconds / static_cast<double>(status.session_steps) *
                  static_cast<double>(status.steps - status.step));
}

std::string MegaBytes(uint64_t bytes) { return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6); }

}  // namespace

std::string ProgressLine(const std::string& worker_id, const WorkerStatus& status) {
  std::string line = absl::StrFormat("%s %s", worker_id, status.state);
  if (status.session_steps == 0) {
    return line;
  }
  absl::StrAppendFormat(&line,
                        "  step %d/%d  loss %.3f  %.0f tokens/s  utilization %.1f%%  blocked %.1fs  round %d/%d  "
                        "staleness %d  left %s",
                        status.step, status.steps, status.loss, status.tokens_per_second, 100 * status.Utilization(),
                        status.blocked_seconds, status.round, status.rounds, status.Staleness(), Remaining(status));
  if (!status.connected) {
    absl::StrAppend(&line, "  (no coordinator)");
  }
  return line;
}

std::string SummaryLine(const std::string& worker_id, const WorkerStatus& status) {
  std::string line = absl::StrFormat("%s %s: %d of %d steps", worker_id, status.state == "done" ? "done" : "stopped",
                                     status.step, status.steps);
  if (status.session_steps == 0) {
    return line;
  }
  absl::StrAppendFormat(&line, ", loss %.3f to %.3f", status.first_loss, status.loss);
  if (status.evaluation_version >= 0) {
    absl::StrAppendFormat(&line, ", held-out loss %.3f", status.evaluation_loss);
  }
  absl::StrAppendFormat(&line, ", utilization %.1f%%, blocked %.1fs, sent %s, received %s", 100 * status.Utilization(),
                        status.blocked_seconds, MegaBytes(status.uploaded_bytes), MegaBytes(status.downloaded_bytes));
  return line;
}

}  // namespace diloco
