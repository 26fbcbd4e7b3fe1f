// What the commands of dilococtl share.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/base/clock.h"
#include "common/base/exit_code.h"
#include "coordinator/ctl/admin_client.h"

namespace diloco {

struct TerminalSize {
  int columns = 0;
  int rows = 0;
};

// The world of a command, so that tests can stand in for it.
struct CtlIo {
  std::function<void(std::string_view)> out;  // Results. Shown at once.
  std::function<void(std::string_view)> err;  // Messages.
  // Of what `out` writes to; zeros when that is no terminal. Asked before each redraw.
  std::function<TerminalSize()> terminal;
  // Shows a question and returns the line that was answered; nullopt: there is no terminal to ask at, or it is closed.
  std::function<std::optional<std::string>(std::string_view question)> ask;
  const Clock* clock = nullptr;
  std::function<void(absl::Duration)> pause;  // Between two looks of --watch.
};

enum class OutputFormat { kTable, kJson };

struct CommandContext {
  const AdminClient& client;
  OutputFormat format;
  absl::Duration timeout;
  const CtlIo& io;
};

// Each asks once and prints the answer. Errors: those of AdminClient.
absl::StatusOr<ExitCode> RunStatus(const CommandContext& context);  // kUnhealthy for a run that is held.
absl::StatusOr<ExitCode> RunRoundList(const CommandContext& context, uint32_t limit);
absl::StatusOr<ExitCode> RunRoundDescribe(const CommandContext& context, int64_t round);
absl::StatusOr<ExitCode> RunWorkerList(const CommandContext& context);
absl::StatusOr<ExitCode> RunCheckpointSave(const CommandContext& context);

// Each changes what a worker is to the run, and prints what that means. Without `yes` the first two ask first.
// Errors: those of AdminClient and Confirm.
absl::StatusOr<ExitCode> RunWorkerDrain(const CommandContext& context, const std::string& worker, bool yes);
absl::StatusOr<ExitCode> RunWorkerEvict(const CommandContext& context, const std::string& worker, bool yes);
absl::StatusOr<ExitCode> RunWorkerAdmit(const CommandContext& context, const std::string& worker);

struct RecoverFlags {
  std::string from;
  bool discard_workers = false;
  bool force = false;
};
// Says what would be done, and asks first without `yes`. Errors: as above.
absl::StatusOr<ExitCode> RunRecover(const CommandContext& context, const RecoverFlags& flags, bool yes);

// Looks again every `interval` until the run has ended, and prints a summary. On a terminal each look replaces the one
// before; with kJson each is a line {"status": GetStatusResponse, "workers": ListWorkersResponse} and there is no
// summary. Errors: those of AdminClient; a coordinator that cannot be reached only after `context.timeout` of it.
absl::StatusOr<ExitCode> RunStatusWatch(const CommandContext& context, absl::Duration interval);

}  // namespace diloco
