// The newest events of this process, for whoever watches. One place holds them all: a reader keeps nothing here but
// the number that it has come to, so that one which is slow, or stands still, costs nobody anything and misses what has
// been dropped meanwhile. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "diloco/v1/admin.pb.h"

namespace diloco {

// Events that are kept, and who may watch at once.
inline constexpr size_t kMaxEvents = 1000;
inline constexpr size_t kMaxEventWatchers = 64;

class EventLog {
 public:
  // `id`: Event.log_id, not 0. `clock` outlives the log.
  EventLog(uint64_t id, const Clock* clock);

  // Gives the event its number, time and log id, and keeps it; the oldest beyond kMaxEvents is dropped.
  void Add(v1::Event event);

  struct Reading {
    std::shared_ptr<const v1::Event> event;
    uint64_t missed = 0;  // Events between `after` and this one: dropped.
  };
  // The oldest event that is kept and has a greater number; nullopt: there is none yet.
  std::optional<Reading> Next(uint64_t after) const;

  // Calls `wake` after each Add, from the thread of that, without a lock; it must not block, and may still come once
  // after Unwatch. False: kMaxEventWatchers watch already.
  bool Watch(const void* who, std::function<void()> wake);
  void Unwatch(const void* who);

  uint64_t id() const { return id_; }

 private:
  const uint64_t id_;
  const Clock* const clock_;
  const MonotonicTime started_;
  mutable Mutex mutex_;
  uint64_t newest_ ABSL_GUARDED_BY(mutex_) = 0;  // Number of the last of events_.
  std::deque<std::shared_ptr<const v1::Event>> events_ ABSL_GUARDED_BY(mutex_);
  std::map<const void*, std::function<void()>> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace diloco
