#include "coordinator/ctl/ctl.h"

#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

#include "common/command_line/usage_error.h"
#include "coordinator/ctl/command_tree.h"
#include "coordinator/ctl/table.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

absl::StatusOr<ExitCode> RunAction(const Action& action, const GlobalOptions& options, const CtlIo& io) {
  if (const auto* local = std::get_if<LocalAction>(&action)) return (*local)(options.format(), io);
  return RunRemotely(std::get<RemoteAction>(action), options, io);
}

}  // namespace

int RunCtl(int argc, const char* const* argv, const CtlIo& io) {
  CommandTree tree;
  try {
    tree.app().parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    io.out(tree.app().help());
    return static_cast<int>(ExitCode::kOk);
  } catch (const CLI::CallForVersion& version) {
    io.out(absl::StrFormat("%s\n", version.what()));
    return static_cast<int>(ExitCode::kOk);
  } catch (const CLI::ParseError& error) {
    io.err(absl::StrFormat("dilococtl: %s\n", Printable(std::string(UsageError(tree.app(), error).message()))));
    return static_cast<int>(ExitCode::kUsage);
  }
  const absl::StatusOr<ExitCode> code = RunAction(tree.parsed(), tree.options(), io);
  if (code.ok()) return static_cast<int>(*code);
  io.err(absl::StrFormat("dilococtl: %s\n", Printable(std::string(code.status().message()))));
  return static_cast<int>(ExitCodeFor(code.status()));
}

}  // namespace diloco
