#include "common/http/bounded_task_queue.h"

#include <utility>

namespace diloco {

BoundedTaskQueue::BoundedTaskQueue(int threads, size_t max_waiting) : max_waiting_(max_waiting) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

void BoundedTaskQueue::enqueue(std::function<void()> task) {
  MutexLock lock(&mutex_);
  while (tasks_.size() >= max_waiting_) changed_.Wait(&mutex_);
  tasks_.push_back(std::move(task));
  changed_.NotifyAll();
}

void BoundedTaskQueue::shutdown() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void BoundedTaskQueue::Work() {
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(&mutex_);
      while (tasks_.empty() && !stopping_) changed_.Wait(&mutex_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      changed_.NotifyAll();
    }
    task();
  }
}

}  // namespace diloco
