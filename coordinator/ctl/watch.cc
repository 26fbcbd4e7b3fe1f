#include "coordinator/ctl/watch.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"

#include "coordinator/ctl/flags.h"
#include "coordinator/ctl/table.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

// Shows frames, each in the place of the one before where the output can do that.
class Screen {
 public:
  Screen(const CtlIo* io, OutputFormat format) : io_(*io), format_(format) {}

  void Show(const Frame& frame) {
    if (format_ == OutputFormat::kJson) {
      io_.out(frame.json);
      return;
    }
    const TerminalSize terminal = io_.terminal();
    if (terminal.columns <= 0 || terminal.rows <= 1) {
      io_.out(frame.lines);
      return;
    }
    // What wrapped or scrolled could not be taken back.
    const std::string shown =
        CutText(frame.screen, static_cast<size_t>(terminal.rows - 1), static_cast<size_t>(terminal.columns));
    const std::string erase = lines_ > 0 ? absl::StrFormat("\x1b[%dA\x1b[J", lines_) : "";
    lines_ = std::count(shown.begin(), shown.end(), '\n');
    io_.out(erase + shown);
  }

  void Message(std::string_view text) {
    io_.err(absl::StrFormat("dilococtl: %s\n", Printable(text)));
    lines_ = 0;  // The next frame comes below the message.
  }

 private:
  const CtlIo& io_;
  const OutputFormat format_;
  std::ptrdiff_t lines_ = 0;  // Of the frame that is on the terminal.
};

bool CannotReach(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kDeadlineExceeded;
}

}  // namespace

absl::Status Watch(const CommandContext& context, absl::Duration interval,
                   const std::function<absl::StatusOr<Frame>()>& look) {
  const CtlIo& io = context.io;
  Screen screen(&io, context.format);
  MonotonicTime reached = io.clock->Now();
  bool lost = false;
  while (true) {
    const absl::StatusOr<Frame> frame = look();
    const MonotonicTime now = io.clock->Now();
    if (frame.ok()) {
      reached = now;
      lost = false;
      screen.Show(*frame);
      if (frame->last) return absl::OkStatus();
    } else if (!CannotReach(frame.status()) || now - reached >= context.timeout) {
      return frame.status();
    } else if (!std::exchange(lost, true)) {
      screen.Message(absl::StrFormat("%s; trying for %s", std::string(frame.status().message()),
                                     absl::FormatDuration(context.timeout)));
    }
    io.pause(interval);
  }
}

void AddWatchFlags(CLI::App& app, WatchFlags& flags) {
  app.add_flag("--watch", flags.watch, "Look again and again, until Ctrl-C or until there is no more to see");
  app.add_option("--interval", flags.interval, "Between two looks of --watch")->capture_default_str();
}

absl::StatusOr<absl::Duration> IntervalOf(const WatchFlags& flags) { return ParseWait("--interval", flags.interval); }

}  // namespace diloco
