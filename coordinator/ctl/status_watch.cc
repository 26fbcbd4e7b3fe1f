#include "coordinator/ctl/status_watch.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "coordinator/ctl/json_output.h"
#include "coordinator/ctl/table.h"
#include "coordinator/ctl/views.h"
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

// Shows looks, each in the place of the one before where the output can do that.
class Screen {
 public:
  Screen(const CtlIo* io, OutputFormat format) : io_(*io), format_(format) {}

  void Show(const Look& look, std::optional<absl::Duration> eta) {
    if (format_ == OutputFormat::kJson) {
      std::string status = ToJson(look.status, JsonStyle::kOneLine);
      status.pop_back();
      std::string workers = ToJson(look.workers, JsonStyle::kOneLine);
      workers.pop_back();
      io_.out(absl::StrFormat("{\"status\":%s,\"workers\":%s}\n", status, workers));
      return;
    }
    const TerminalSize terminal = io_.terminal();
    if (terminal.columns <= 0 || terminal.rows <= 1) {
      io_.out(WatchLines(look.status, look.workers, eta));
      return;
    }
    // What wrapped or scrolled could not be taken back.
    const std::string frame = CutText(WatchTable(look.status, look.workers, eta),
                                      static_cast<size_t>(terminal.rows - 1), static_cast<size_t>(terminal.columns));
    const std::string erase = lines_ > 0 ? absl::StrFormat("\x1b[%dA\x1b[J", lines_) : "";
    lines_ = std::count(frame.begin(), frame.end(), '\n');
    io_.out(erase + frame);
  }

  void Message(std::string_view text) {
    io_.err(absl::StrFormat("dilococtl: %s\n", text));
    lines_ = 0;  // The next look comes below the message.
  }

 private:
  const CtlIo& io_;
  const OutputFormat format_;
  std::ptrdiff_t lines_ = 0;  // Of the look that is on the terminal.
};

bool CannotReach(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kDeadlineExceeded;
}

}  // namespace

absl::StatusOr<ExitCode> WatchStatus(const CommandContext& context, absl::Duration interval) {
  const CtlIo& io = context.io;
  Screen screen(&io, context.format);
  EtaEstimator eta;
  MonotonicTime reached = io.clock->Now();
  bool lost = false;
  while (true) {
    const absl::StatusOr<Look> look = LookAtRun(context.client);
    const MonotonicTime now = io.clock->Now();
    if (look.ok()) {
      reached = now;
      lost = false;
      eta.Observe(now, look->status.rounds_committed());
      screen.Show(*look, eta.Remaining(now, look->status.rounds_total()));
      if (HasEnded(look->status, look->workers)) {
        if (context.format == OutputFormat::kTable) io.out(SummaryText(look->status, look->workers));
        return ExitCode::kOk;
      }
    } else if (!CannotReach(look.status()) || now - reached >= context.timeout) {
      return look.status();
    } else if (!std::exchange(lost, true)) {
      screen.Message(absl::StrFormat("%s; trying for %s", std::string(look.status().message()),
                                     absl::FormatDuration(context.timeout)));
    }
    io.pause(interval);
  }
}

}  // namespace diloco
