#include "tests/sim/event_loop.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "tests/sim/heap.h"

namespace diloco::sim {

void EventLoop::At(MonotonicTime when, Task task) {
  DILOCO_CHECK(when >= now_);
  const HeapScope own(kHeapOfTest);  // Whoever asks.
  heap_.push_back({when, made_++, std::move(task)});
  std::push_heap(heap_.begin(), heap_.end(), IsLater);
}

bool EventLoop::RunNext() {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end(), IsLater);
  const Event event = std::move(heap_.back());
  heap_.pop_back();
  now_ = event.when;
  ++events_;
  event.task();
  return true;
}

}  // namespace diloco::sim
