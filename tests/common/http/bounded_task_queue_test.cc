#include "common/http/bounded_task_queue.h"

#include <gtest/gtest.h>

#include <thread>

#include "common/base/mutex.h"

namespace diloco {
namespace {

TEST(BoundedTaskQueueTest, TakesNoMoreThanRunAndWait) {
  constexpr int kThreads = 2;
  constexpr int kWaiting = 3;
  constexpr int kTasks = 500;
  BoundedTaskQueue queue(kThreads, kWaiting);
  Mutex mutex;
  CondVar changed;
  int accepted = 0;
  int ended = 0;
  int most = 0;
  std::thread acceptor([&] {
    for (int i = 0; i < kTasks; ++i) {
      queue.enqueue([&] {
        MutexLock lock(&mutex);
        // The first ones stay until the queue is full; one that took everything would be found here.
        while (accepted < kThreads + kWaiting) changed.Wait(&mutex);
        most = std::max(most, accepted - ended);
        ++ended;
      });
      MutexLock lock(&mutex);
      ++accepted;
      changed.NotifyAll();
    }
  });
  acceptor.join();
  queue.shutdown();
  EXPECT_EQ(ended, kTasks);
  EXPECT_EQ(most, kThreads + kWaiting);
}

}  // namespace
}  // namespace diloco
