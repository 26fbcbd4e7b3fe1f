// The driver's one event queue: closures in, in order. Requests are bounded and may be refused; completions of the
// driver's own work are bounded by what it started and never are. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>

#include "absl/status/status.h"

#include "common/base/mutex.h"

namespace diloco {

class Mailbox {
 public:
  using Task = std::function<void()>;

  explicit Mailbox(size_t limit) : limit_(limit) {}

  // Errors: the reason of Close; kResourceExhausted when `limit` tasks wait. `task` is then dropped.
  absl::Status Offer(Task task);
  void Post(Task task);
  // Refuses every later Offer with `reason`; the first reason stays.
  void Close(absl::Status reason);

  // Everything queued; waits for the first task until `deadline`, and not at all when that has passed.
  std::deque<Task> TakeUntil(std::chrono::steady_clock::time_point deadline);
  bool empty();

 private:
  const size_t limit_;
  Mutex mutex_;
  CondVar arrived_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);  // OK: open.
};

}  // namespace diloco
