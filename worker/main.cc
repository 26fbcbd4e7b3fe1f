// diloco-worker: trains in one datacenter and exchanges outer gradients with the coordinator.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <variant>

#include "absl/status/status.h"

#include "common/base/exit_code.h"
#include "common/base/status_macros.h"
#include "common/base/thread_check.h"
#include "common/log/log.h"
#include "common/rpc/server.h"
#include "worker/app/options.h"
#include "worker/app/simulate.h"
#include "worker/app/train.h"
#include "worker/trainer/unigram_loss.h"

namespace diloco {
namespace {

std::atomic<bool> interrupted = false;
std::atomic<int> stop_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

// The first signal asks the training loop to leave; a second Ctrl-C does not wait for it.
void OnSignal(int signal) {
  if (interrupted.exchange(true) && signal == SIGINT) {
    std::_Exit(static_cast<int>(ExitCode::kInterrupted));
  }
  stop_signal = signal;
}

// Its own, and those of gRPC and LibTorch; more of the latter two start with the load.
constexpr int kThreadsNeeded = 48;

int Fail(const absl::Status& status) {
  SayFailure(kWorkerProgram, std::string(status.message()));
  return static_cast<int>(ExitCodeFor(status));
}

absl::Status Run(const TextToPrint& command) {
  std::fputs(command.text.c_str(), stdout);
  return absl::OkStatus();
}

absl::Status Run(const UnigramFlags& flags) {
  // A pass over the files ends by the signal itself.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  DILOCO_ASSIGN_OR_RETURN(const TokenSource data, TokenSource::Open(flags.data));
  DILOCO_ASSIGN_OR_RETURN(const TokenSource held_out, TokenSource::Open(flags.held_out));
  if (held_out.token_count() == 0) {
    return absl::InvalidArgumentError("data `" + flags.held_out +
                                      "` is empty; name a file or folder with something in it");
  }
  DILOCO_ASSIGN_OR_RETURN(const double loss, UnigramLoss(data, {0, data.token_count()}, held_out,
                                                         {0, held_out.token_count()}, flags.vocabulary));
  std::printf("unigram loss %.4f nats a token on %lld held-out tokens\n", loss,
              static_cast<long long>(held_out.token_count()));
  return absl::OkStatus();
}

absl::Status Run(const SimulateFlags& flags) {
  DILOCO_RETURN_IF_ERROR(InitLog(flags.log));
  return Simulate(flags, &interrupted);
}

absl::Status Run(const WorkerFlags& flags) {
  DILOCO_RETURN_IF_ERROR(InitLog(flags.log));
  RouteGrpcLog();
  return Train(flags, &interrupted);
}

int Main(int argc, char** argv) {
  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
  std::signal(SIGPIPE, SIG_IGN);  // Training outlives whoever reads its output.
  if (const absl::Status threads = CheckThreadsStart(kThreadsNeeded); !threads.ok()) return Fail(threads);
  const absl::StatusOr<WorkerCommand> command = ParseWorkerCommand(argc, argv);
  if (!command.ok()) return Fail(command.status());
  const absl::Status status = std::visit([](const auto& chosen) { return Run(chosen); }, *command);
  // Leaving on request is what was asked for; a checkpoint was written, if any are.
  if (absl::IsCancelled(status) && stop_signal == SIGTERM) return static_cast<int>(ExitCode::kOk);
  return status.ok() ? static_cast<int>(ExitCode::kOk) : Fail(status);
}

}  // namespace
}  // namespace diloco

int main(int argc, char** argv) { return diloco::Main(argc, argv); }
