#include "coordinator/driver/event_log.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "coordinator/driver/wire.h"

namespace diloco {

EventLog::EventLog(uint64_t id, const Clock* clock) : id_(id), clock_(clock), started_(clock->Now()) {
  DILOCO_CHECK(id != 0);
}

void EventLog::Add(v1::Event event) {
  event.set_log_id(id_);
  *event.mutable_at() = DurationToProto(clock_->Now() - started_);
  std::vector<std::function<void()>> wakes;
  {
    MutexLock lock(&mutex_);
    event.set_number(++newest_);
    events_.push_back(std::make_shared<const v1::Event>(std::move(event)));
    if (events_.size() > kMaxEvents) {
      events_.pop_front();
    }
    for (const auto& [who, wake] : watchers_) {
      wakes.push_back(wake);
    }
  }
  for (const std::function<void()>& wake : wakes) {
    wake();
  }
}

std::optional<EventLog::Reading> EventLog::Next(uint64_t after) const {
  MutexLock lock(&mutex_);
  if (after >= newest_) {
    return std::nullopt;
  }
  const uint64_t oldest = newest_ - events_.size() + 1;
  const uint64_t next = std::max(after + 1, oldest);
  return Reading{.event = events_[static_cast<size_t>(next - oldest)], .missed = next - after - 1};
}

bool EventLog::Watch(const void* who, std::function<void()> wake) {
  MutexLock lock(&mutex_);
  if (watchers_.size() >= kMaxEventWatchers) {
    return false;
  }
  watchers_[who] = std::move(wake);
  return true;
}

void EventLog::Unwatch(const void* who) {
  MutexLock lock(&mutex_);
  watchers_.erase(who);
}

}  // namespace diloco
