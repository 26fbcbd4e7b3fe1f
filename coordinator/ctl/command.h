// What a command of dilococtl is, and the world that it runs in.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/base/clock.h"
#include "common/base/exit_code.h"
#include "common/net/host_port.h"
#include "coordinator/ctl/admin_client.h"

namespace CLI {
class App;
}  // namespace CLI
namespace grpc {
class Channel;
}  // namespace grpc

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
  bool no_color = false;  // Whoever sits at the terminal wants none.
  // Shows a question and returns the line that was answered; nullopt: there is no terminal to ask at, or it is closed.
  std::function<std::optional<std::string>(std::string_view question)> ask;
  const Clock* clock = nullptr;
  std::function<void(absl::Duration)> pause;  // Between two looks of --watch.
};

enum class OutputFormat { kTable, kWide, kJson };

struct CommandContext {
  const AdminClient& client;
  // What the client stands on, for commands that ask more than it does.
  const CoordinatorLink& link;
  std::shared_ptr<grpc::Channel> channel;
  HostPort address;
  std::string run_id;  // Empty: whatever run the coordinator has.
  OutputFormat format;
  absl::Duration timeout;
  const CtlIo& io;
};

// What a command does once its line was parsed: with a coordinator, or without one, in which case nothing that says
// where the coordinator is is looked at. Its errors are printed by the caller, and become the exit code. Beside those
// of its own, kInvalidArgument for flags that only make sense together, the first has those of AdminClient.
using RemoteAction = std::function<absl::StatusOr<ExitCode>(const CommandContext&)>;
using LocalAction = std::function<absl::StatusOr<ExitCode>(OutputFormat, const CtlIo&)>;
using Action = std::variant<RemoteAction, LocalAction>;

// One command: a file NOUN_VERB_command.cc that defines a function in the list of commands.h.
struct Command {
  // "worker drain", or "status". Nouns are in command_tree.cc.
  std::string path;
  // What the parent's list of commands shows. One line, no full stop.
  std::string summary;
  // Lines that begin with "dilococtl". `--help` begins with them; the first one stands in the noun's help too.
  std::string examples;
  // Declares flags and arguments, and returns what is done with the values that were parsed, which it owns.
  Action (*declare)(CLI::App& app);
};

}  // namespace diloco
