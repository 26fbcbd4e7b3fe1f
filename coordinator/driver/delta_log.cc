#include "coordinator/driver/delta_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/check.h"

namespace diloco {
namespace {

// The messages of a delta, each keeping the whole delta alive.
void AppendMessages(const std::shared_ptr<const PublishedDelta>& delta,
                    std::vector<std::shared_ptr<const std::string>>* messages) {
  for (const std::string& message : delta->messages) {
    messages->push_back(std::shared_ptr<const std::string>(delta, &message));
  }
}

}  // namespace

DeltaLog::DeltaLog(int fragments, int64_t version)
    : retained_from_(version), next_(static_cast<size_t>(fragments), version) {}

void DeltaLog::Publish(std::shared_ptr<const PublishedDelta> delta) {
  int64_t& next = next_[static_cast<size_t>(delta->fragment)];
  DILOCO_CHECK(delta->round == next);
  ++next;
  std::vector<std::shared_ptr<const std::string>> messages;
  AppendMessages(delta, &messages);
  for (const auto& [worker, queue] : subscribers_) {
    for (const std::shared_ptr<const std::string>& message : messages) {
      queue->Push(message);
    }
    sent_bytes_ += delta->commit.payload_bytes();
  }
  deltas_.push_back(std::move(delta));
}

void DeltaLog::PublishSettings(std::string settings_message) {
  settings_ = std::make_shared<const std::string>(std::move(settings_message));
  for (const auto& [worker, queue] : subscribers_) {
    queue->Push(settings_);
  }
}

void DeltaLog::PublishEnd(std::string end_message) {
  end_ = std::make_shared<const std::string>(std::move(end_message));
  for (const auto& [worker, queue] : subscribers_) {
    queue->Push(end_);
  }
  EndAll();
}

absl::Status DeltaLog::Subscribe(const std::string& worker, absl::Span<const int64_t> next_rounds,
                                 std::shared_ptr<DeltaQueue> queue, const std::function<void()>& accepted) {
  if (next_rounds.size() != next_.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d rounds for %d fragments; give the next round of each", next_rounds.size(), next_.size()));
  }
  for (size_t fragment = 0; fragment < next_.size(); ++fragment) {
    const int64_t wanted = next_rounds[fragment];
    if (wanted < retained_from_) {
      return absl::OutOfRangeError(
          absl::StrFormat("fragment %d: round %d is no longer retained, the oldest one is %d; "
                          "fetch the snapshot",
                          fragment, wanted, retained_from_));
    }
    if (wanted > next_[fragment]) {
      return absl::OutOfRangeError(
          absl::StrFormat("fragment %d: round %d is newer than what is published, the next one is %d; fetch the "
                          "snapshot",
                          fragment, wanted, next_[fragment]));
    }
  }
  accepted();
  std::vector<std::shared_ptr<const std::string>> backlog;
  if (settings_ != nullptr) {
    backlog.push_back(settings_);
  }
  for (const std::shared_ptr<const PublishedDelta>& delta : deltas_) {
    if (delta->round >= next_rounds[static_cast<size_t>(delta->fragment)]) {
      AppendMessages(delta, &backlog);
      sent_bytes_ += delta->commit.payload_bytes();
    }
  }
  if (end_ != nullptr) {
    backlog.push_back(end_);
  }
  queue->PushBacklog(backlog);
  if (end_ != nullptr) {
    queue->End();
    return absl::OkStatus();
  }
  std::shared_ptr<DeltaQueue>& slot = subscribers_[worker];
  if (slot != nullptr) {
    slot->End();
  }
  slot = std::move(queue);
  return absl::OkStatus();
}

void DeltaLog::Unsubscribe(const DeltaQueue* queue) {
  for (auto it = subscribers_.begin(); it != subscribers_.end(); ++it) {
    if (it->second.get() == queue) {
      subscribers_.erase(it);
      return;
    }
  }
}

void DeltaLog::EndOf(const std::string& worker) {
  if (const auto it = subscribers_.find(worker); it != subscribers_.end()) {
    it->second->End();
    subscribers_.erase(it);
  }
}

void DeltaLog::EndAll() {
  for (const auto& [worker, queue] : subscribers_) {
    queue->End();
  }
  subscribers_.clear();
}

void DeltaLog::DropBefore(int64_t round) {
  retained_from_ = std::max(retained_from_, round);
  std::erase_if(deltas_, [this](const auto& delta) { return delta->round < retained_from_; });
}

}  // namespace diloco
