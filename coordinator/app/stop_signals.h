// SIGINT and SIGTERM without signal handlers: both are blocked in every thread, and one thread waits for them.
#pragma once

#include <functional>
#include <thread>

#include "common/base/mutex.h"

namespace diloco {

// One object, made before any other thread.
class StopSignals {
 public:
  // `interrupted` is called when a signal comes before Handle(), or a SIGINT after the first signal was handled: it
  // ends the process. A SIGTERM after the first changes nothing: supervisors send it to the process and to its group.
  explicit StopSignals(std::function<void(int signal)> interrupted);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // From now on the first signal calls `stop`, once and on the waiting thread. It must not block.
  void Handle(std::function<void()> stop);

 private:
  void Run();

  const std::function<void(int signal)> interrupted_;
  Mutex mutex_;
  std::function<void()> stop_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace diloco
