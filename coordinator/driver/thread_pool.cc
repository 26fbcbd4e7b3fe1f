#include "coordinator/driver/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "common/base/check.h"

namespace diloco {
namespace {

// Waits end by a notification; the deadline only keeps a lost one from hanging a thread for ever.
constexpr std::chrono::seconds kWaitSlice{1};
// Helpers that one ParallelFor asks for. More threads than this do not speed up a merge: memory is the limit.
constexpr int64_t kMaxHelpers = 15;

// Shared by the threads of one ParallelFor. `body` is alive while any index is not done.
struct Loop {
  explicit Loop(int64_t count_in, const std::function<void(int64_t)>* body_in) : count(count_in), body(body_in) {}

  // Takes indices until none is left.
  void Help() {
    for (;;) {
      int64_t index = 0;
      {
        MutexLock lock(&mutex);
        if (next == count) {
          return;
        }
        index = next++;
      }
      (*body)(index);
      MutexLock lock(&mutex);
      if (++done == count) {
        finished.NotifyAll();
      }
    }
  }

  void WaitUntilDone() {
    MutexLock lock(&mutex);
    while (done < count) {
      finished.WaitUntil(&mutex, std::chrono::steady_clock::now() + kWaitSlice);
    }
  }

  const int64_t count;
  const std::function<void(int64_t)>* const body;
  Mutex mutex;
  CondVar finished;
  int64_t next ABSL_GUARDED_BY(mutex) = 0;
  int64_t done ABSL_GUARDED_BY(mutex) = 0;
};

}  // namespace

ThreadPool::ThreadPool(int threads) {
  DILOCO_CHECK(threads >= 1);
  threads_.reserve(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Work(); });
  }
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void ThreadPool::Submit(std::function<void()> task) {
  MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
  changed_.NotifyOne();
}

void ThreadPool::Work() {
  for (;;) {
    std::function<void()> task;
    {
      MutexLock lock(&mutex_);
      while (tasks_.empty() && !closing_) {
        changed_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + kWaitSlice);
      }
      if (tasks_.empty()) {
        return;
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

ParallelFor ParallelForOn(Executor* pool) {
  return [pool](int64_t count, const std::function<void(int64_t)>& body) {
    auto loop = std::make_shared<Loop>(count, &body);
    const int64_t helpers = std::min(count - 1, kMaxHelpers);
    for (int64_t i = 0; i < helpers; ++i) {
      pool->Submit([loop] { loop->Help(); });
    }
    loop->Help();
    loop->WaitUntilDone();
  };
}

}  // namespace diloco
