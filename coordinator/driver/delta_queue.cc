#include "coordinator/driver/delta_queue.h"

#include <utility>

#include "common/base/check.h"

namespace diloco {

DeltaQueue::DeltaQueue(uint64_t limit_bytes, std::string resync, std::function<void()> on_ready)
    : limit_bytes_(limit_bytes),
      resync_(std::make_shared<const std::string>(std::move(resync))),
      on_ready_(std::move(on_ready)) {}

void DeltaQueue::PushBacklog(const std::vector<std::shared_ptr<const std::string>>& messages) {
  bool ready = false;
  {
    MutexLock lock(&mutex_);
    DILOCO_CHECK(messages_.empty());
    if (!ended_) {
      messages_.assign(messages.begin(), messages.end());
      backlog_ = messages.size();
      ready = !messages.empty();
    }
  }
  if (ready) {
    on_ready_();
  }
}

void DeltaQueue::Push(std::shared_ptr<const std::string> message) {
  bool ready = false;
  {
    MutexLock lock(&mutex_);
    if (ended_) {
      return;
    }
    ready = messages_.empty();
    live_bytes_ += message->size();
    messages_.push_back(std::move(message));
    if (live_bytes_ > limit_bytes_) {
      messages_.assign(1, resync_);
      backlog_ = 1;
      live_bytes_ = 0;
      ended_ = true;
      ready = true;
    }
  }
  if (ready) {
    on_ready_();
  }
}

void DeltaQueue::End() {
  {
    MutexLock lock(&mutex_);
    if (ended_) {
      return;
    }
    ended_ = true;
  }
  on_ready_();
}

std::shared_ptr<const std::string> DeltaQueue::Pop(bool* ended) {
  MutexLock lock(&mutex_);
  std::shared_ptr<const std::string> message;
  if (!messages_.empty()) {
    message = std::move(messages_.front());
    messages_.pop_front();
    if (backlog_ > 0) {
      --backlog_;
    } else {
      live_bytes_ -= message->size();
    }
  }
  *ended = ended_ && messages_.empty();
  return message;
}

}  // namespace diloco
