// The thread pool behind HttpServer: a fixed number of threads and of waiting connections. When it is full, the thread
// that accepts connections waits, and the kernel's backlog refuses the rest.
#pragma once

#include <httplib.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "common/base/mutex.h"

namespace diloco {

class BoundedTaskQueue final : public httplib::TaskQueue {
 public:
  BoundedTaskQueue(int threads, size_t max_waiting);
  // Waits for room.
  void enqueue(std::function<void()> task) override;
  // Runs what is queued, then joins the threads.
  void shutdown() override;

 private:
  void Work();

  const size_t max_waiting_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace diloco
