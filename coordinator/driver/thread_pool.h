// The real executors: one thread for the disk, several for merges.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/merge/merge.h"
#include "coordinator/driver/executor.h"

namespace diloco {

// A fixed number of threads over one queue; with one thread, tasks run in order. Thread-safe.
class ThreadPool final : public Executor {
 public:
  // threads >= 1.
  explicit ThreadPool(int threads);
  // Runs what was submitted, then joins its threads. Nothing may be submitted any more.
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void Submit(std::function<void()> task) override;

 private:
  void Work();

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// A ParallelFor over `pool`. The calling thread takes part and waits only for bodies that have begun elsewhere, so it
// may itself be a task of the pool, of one thread even. `pool` outlives the function.
ParallelFor ParallelForOn(Executor* pool);

}  // namespace diloco
