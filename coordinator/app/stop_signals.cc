#include "coordinator/app/stop_signals.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace diloco {
namespace {

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

StopSignals::StopSignals(std::function<void(int signal)> interrupted) : interrupted_(std::move(interrupted)) {
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::thread([this] { Run(); });
}

StopSignals::~StopSignals() {
  {
    MutexLock lock(&mutex_);
    ending_ = true;
  }
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

void StopSignals::Handle(std::function<void()> stop) {
  MutexLock lock(&mutex_);
  stop_ = std::move(stop);
}

void StopSignals::Run() {
  const sigset_t signals = Signals();
  while (true) {
    int signal = 0;
    sigwait(&signals, &signal);
    MutexLock lock(&mutex_);
    if (ending_) return;
    if (stop_ != nullptr) {
      stopping_ = true;
      std::exchange(stop_, nullptr)();
    } else if (!stopping_ || signal == SIGINT) {
      interrupted_(signal);
    }
  }
}

}  // namespace diloco
