// Events for one thread from many. Bounded by its producers: each of them waits for an answer before it adds much more
// (one outstanding read or write a call, one boundary).
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace diloco {

template <typename Event>
class EventQueue {
 public:
  void Push(Event event) {
    MutexLock lock(&mutex_);
    events_.push_back(std::move(event));
    arrived_.NotifyOne();
  }

  // From now on Pop gives nothing, at once.
  void Close() {
    MutexLock lock(&mutex_);
    closed_ = true;
    arrived_.NotifyAll();
  }
  bool closed() const {
    MutexLock lock(&mutex_);
    return closed_;
  }

  // Waits for an event until `deadline`; nothing when there is none.
  std::optional<Event> Pop(MonotonicTime deadline) {
    MutexLock lock(&mutex_);
    bool in_time = true;
    while (events_.empty() && !closed_ && in_time) {
      in_time = arrived_.WaitUntil(&mutex_, ToSteady(deadline));
    }
    if (closed_ || events_.empty()) {
      return std::nullopt;
    }
    Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  mutable Mutex mutex_;
  CondVar arrived_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Event> events_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace diloco
