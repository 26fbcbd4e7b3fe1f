// diloco-coordinator: averages what the workers of a run send and publishes the averages.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/base/exit_code.h"
#include "common/base/thread_check.h"
#include "common/log/log.h"
#include "common/rpc/server.h"
#include "coordinator/app/coordinator.h"
#include "coordinator/app/options.h"
#include "coordinator/app/stop_signals.h"

namespace diloco {
namespace {

// Its own and those of gRPC; more of the latter start with the load.
constexpr int kThreadsNeeded = 48;

int Fail(const absl::Status& status) {
  SayFailure(kCoordinatorProgram, std::string(status.message()));
  return static_cast<int>(ExitCodeFor(status));
}

// Being told to go is no failure, however early.
[[noreturn]] void ExitInterrupted(int signal) {
  const int exit_code = Fail(
      absl::CancelledError("interrupted before it was ready, or twice; the data folder is as the last sync left it"));
  std::_Exit(signal == SIGTERM ? static_cast<int>(ExitCode::kOk) : exit_code);
}

int Main(int argc, char** argv) {
  if (const absl::Status status = CheckThreadsStart(kThreadsNeeded); !status.ok()) return Fail(status);
  StopSignals signals(ExitInterrupted);
  const absl::StatusOr<CommandLine> command_line = ParseCommandLine(argc, argv);
  if (!command_line.ok()) return Fail(command_line.status());
  if (command_line->text.has_value()) {
    std::fputs(command_line->text->c_str(), stdout);
    return static_cast<int>(ExitCode::kOk);
  }
  if (const absl::Status status = InitLog(command_line->options.log); !status.ok()) return Fail(status);
  RouteGrpcLog();

  absl::StatusOr<std::unique_ptr<Coordinator>> coordinator = Coordinator::Start(command_line->options);
  if (!coordinator.ok()) return Fail(coordinator.status());
  signals.Handle([&coordinator] { (*coordinator)->RequestStop(); });
  const absl::Status fatal = (*coordinator)->Wait();
  signals.Handle([] {});  // It has stopped.
  if (fatal.ok()) return static_cast<int>(ExitCode::kOk);
  Fail(fatal);
  return static_cast<int>(ExitCode::kFailure);
}

}  // namespace
}  // namespace diloco

int main(int argc, char** argv) { return diloco::Main(argc, argv); }
