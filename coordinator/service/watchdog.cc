#include "coordinator/service/watchdog.h"

namespace diloco {

Watchdog::Watchdog() : thread_([this] { Run(); }) {}

Watchdog::~Watchdog() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

Watchdog::Token Watchdog::Arm(absl::Duration duration, std::function<void()> expired) {
  const MonotonicTime deadline = clock_.Now() + duration;
  MutexLock lock(&mutex_);
  const Token token = ++last_token_;
  const auto wait = waits_.emplace(std::pair(deadline, token), std::move(expired)).first;
  deadlines_.emplace(token, deadline);
  if (wait == waits_.begin()) changed_.NotifyAll();
  return token;
}

void Watchdog::Disarm(Token token) {
  std::function<void()> dropped;  // Destroyed without the lock: it may hold the last reference to something.
  MutexLock lock(&mutex_);
  const auto deadline = deadlines_.find(token);
  if (deadline == deadlines_.end()) return;
  const auto wait = waits_.find({deadline->second, token});
  dropped = std::move(wait->second);
  waits_.erase(wait);
  deadlines_.erase(deadline);
}

void Watchdog::Run() {
  while (true) {
    std::function<void()> expired;
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && (waits_.empty() || clock_.Now() < waits_.begin()->first.first)) {
        if (waits_.empty()) {
          changed_.Wait(&mutex_);
        } else {
          changed_.WaitUntil(&mutex_, ToSteady(waits_.begin()->first.first));
        }
      }
      if (stopping_) return;
      expired = std::move(waits_.begin()->second);
      deadlines_.erase(waits_.begin()->first.second);
      waits_.erase(waits_.begin());
    }
    expired();
  }
}

}  // namespace diloco
