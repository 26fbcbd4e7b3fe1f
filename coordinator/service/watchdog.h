// Deadlines of waits for a peer: calls back when a wait was not over in time. One thread. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/time/time.h"

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace diloco {

class Watchdog {
 public:
  using Token = uint64_t;  // Never 0.

  Watchdog();
  // Waits that are still armed never expire.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Calls `expired` once, on the watchdog's thread and without a lock, unless Disarm comes within `duration`. It must
  // not block.
  Token Arm(absl::Duration duration, std::function<void()> expired);
  // Harmless when it has expired already: the call may then still be under way.
  void Disarm(Token token);

 private:
  void Run();

  const SteadyClock clock_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Token last_token_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<MonotonicTime, Token>, std::function<void()>> waits_ ABSL_GUARDED_BY(mutex_);
  std::map<Token, MonotonicTime> deadlines_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace diloco
