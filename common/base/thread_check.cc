#include "common/base/thread_check.h"

#include <pthread.h>

#include <cstring>
#include <vector>

#include "absl/strings/str_format.h"

#include "common/base/mutex.h"

namespace diloco {
namespace {

struct Gate {
  Mutex mutex;
  CondVar opened;
  bool open ABSL_GUARDED_BY(mutex) = false;
};

void* WaitFor(void* pointer) {
  Gate& gate = *static_cast<Gate*>(pointer);
  MutexLock lock(&gate.mutex);
  while (!gate.open) gate.opened.Wait(&gate.mutex);
  return nullptr;
}

}  // namespace

absl::Status CheckThreadsStart(int count) {
  Gate gate;
  std::vector<pthread_t> threads;
  int error = 0;
  while (error == 0 && static_cast<int>(threads.size()) < count) {
    pthread_t thread;
    error = pthread_create(&thread, nullptr, WaitFor, &gate);
    if (error == 0) threads.push_back(thread);
  }
  {
    MutexLock lock(&gate.mutex);
    gate.open = true;
    gate.opened.NotifyAll();
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  if (error == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "only %d of %d threads can start: %s; raise the limit on processes (ulimit -u, or pids.max of the "
      "container)",
      threads.size(), count, std::strerror(error)));
}

}  // namespace diloco
