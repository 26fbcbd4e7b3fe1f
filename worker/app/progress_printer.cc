#include "worker/app/progress_printer.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

#include "worker/app/progress_line.h"

namespace diloco {
namespace {

// Columns of the terminal; a line that wraps could not be rewritten.
size_t TerminalWidth() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

ProgressPrinter::ProgressPrinter(ProgressStyle style, std::string worker_id, const Clock* clock)
    : enabled_(style != ProgressStyle::kNone),
      in_place_(style == ProgressStyle::kAuto && isatty(STDOUT_FILENO) == 1),
      worker_id_(std::move(worker_id)),
      clock_(clock) {}

void ProgressPrinter::Show(const WorkerStatus& status) {
  last_ = status;
  if (!enabled_) return;
  if (in_place_) {
    // The cursor goes back to the start, so that a line of the log writes over this one and not behind it.
    printf("\r\x1b[K%s\r", ProgressLine(worker_id_, status).substr(0, TerminalWidth() - 1).c_str());
  } else if (!shown_ || clock_->Now() - printed_at_ >= kPlainInterval) {
    printf("%s\n", ProgressLine(worker_id_, status).c_str());
    printed_at_ = clock_->Now();
  }
  shown_ = true;
  fflush(stdout);
}

void ProgressPrinter::Finish() {
  if (!shown_) return;
  printf("%s%s\n", in_place_ ? "\r\x1b[K" : "", SummaryLine(worker_id_, last_).c_str());
  fflush(stdout);
}

}  // namespace diloco
