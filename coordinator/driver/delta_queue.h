// What one subscriber still has to be sent: published messages, serialised once and shared by all subscribers. The
// driver pushes, a stream pops. Thread-safe.
//
// A slow reader costs its own queue only: when more than `limit_bytes` of live messages wait, the queue drops them all
// and holds one ResyncRequired message, then ends.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/mutex.h"

namespace diloco {

class DeltaQueue {
 public:
  // `on_ready` is called, from the pushing thread and without a lock, when the queue stops being empty or ends; it
  // must not block. `resync` is the serialised v1::SubscribeResponse for a reader that fell behind.
  DeltaQueue(uint64_t limit_bytes, std::string resync, std::function<void()> on_ready);

  // What was published before the subscription; at most once, before any Push. Not counted against the limit, because
  // the retention holds it anyway.
  void PushBacklog(const std::vector<std::shared_ptr<const std::string>>& messages);
  // One more published message, a serialised v1::SubscribeResponse. Ignored once the queue has ended.
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
  size_t backlog_ ABSL_GUARDED_BY(mutex_) = 0;  // Messages at the front that are not counted.
  uint64_t live_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace diloco
