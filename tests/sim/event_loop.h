// Simulated time: events in order of their time, those of one time in the order in which they were made. Time stands
// still while one runs.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/time/time.h"

#include "common/base/clock.h"

namespace diloco::sim {

using Task = std::function<void()>;

class EventLoop final : public Clock {
 public:
  MonotonicTime Now() const override { return now_; }
  // Since the start.
  absl::Duration Elapsed() const { return now_ - kStart; }

  // `when` >= Now().
  void At(MonotonicTime when, Task task);
  void After(absl::Duration delay, Task task) { At(now_ + delay, std::move(task)); }

  // Runs the next event; false: there is none.
  bool RunNext();

  uint64_t events() const { return events_; }
  size_t pending() const { return heap_.size(); }

 private:
  static constexpr MonotonicTime kStart{1'000'000'000};
  struct Event {
    MonotonicTime when;
    uint64_t order = 0;
    Task task;
  };
  static bool IsLater(const Event& a, const Event& b) { return a.when != b.when ? a.when > b.when : a.order > b.order; }

  MonotonicTime now_ = kStart;
  uint64_t made_ = 0;
  uint64_t events_ = 0;
  std::vector<Event> heap_;
};

}  // namespace diloco::sim
