// What one subscriber still has to be sent: published messages, serialised once and shared by all subscribers. The
// driver pushes, a stream pops. Thread-safe.
//
// A slow reader costs its own queue only: when more than `limit_bytes` wait, the queue drops them all and holds one
// ResyncRequired message, then ends.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/mutex.h"

namespace diloco {

class DeltaQueue {
 public:
  // `on_ready` is called, from the pushing thread and without a lock, when the queue stops being empty or ends; it
  // must not block. `resync` is the serialised v1::SubscribeResponse for a reader that fell behind.
  DeltaQueue(uint64_t limit_bytes, std::string resync, std::function<void()> on_ready);

  // Serialised v1::SubscribeResponse; `owner` keeps it alive.
  void Push(std::shared_ptr<const std::string> message);
  // Nothing follows; what is queued is still delivered.
  void End();

  // The next message; nullptr: none now. Sets *ended when there will never be another one.
  std::shared_ptr<const std::string> Pop(bool* ended);

 private:
  const uint64_t limit_bytes_;
  const std::shared_ptr<const std::string> resync_;
  const std::function<void()> on_ready_;
  Mutex mutex_;
  std::deque<std::shared_ptr<const std::string>> messages_ ABSL_GUARDED_BY(mutex_);
  uint64_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace diloco
