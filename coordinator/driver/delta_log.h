// Published global deltas that are retained, and who is sent them. Not thread-safe: the driver's.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "coordinator/driver/delta_queue.h"
#include "coordinator/store/store.h"

namespace diloco {

class DeltaLog {
 public:
  // Nothing is retained before `version`: every fragment's next round.
  explicit DeltaLog(int fragments, int64_t version);

  // Appends the next delta of its fragment and sends it to every subscriber.
  void Publish(std::shared_ptr<const PublishedDelta> delta);
  // The run's settings, a serialised v1::SubscribeResponse: sent to every subscriber, and first to each that comes.
  void PublishSettings(std::string settings_message);
  // The serialised end record: sent, and nothing follows.
  void PublishEnd(std::string end_message);

  // Sends what is retained from these rounds on, and from now on what is published. A worker's older subscription is
  // ended. Errors: kInvalidArgument: not one round a fragment; kOutOfRange: older than what is retained, or newer than
  // what is published. `accepted` is called before the first message.
  absl::Status Subscribe(const std::string& worker, absl::Span<const int64_t> next_rounds,
                         std::shared_ptr<DeltaQueue> queue, const std::function<void()>& accepted);
  void Unsubscribe(const DeltaQueue* queue);
  // Ends the worker's subscription, or every one, without an end record.
  void EndOf(const std::string& worker);
  void EndAll();

  // Forgets rounds before this one.
  void DropBefore(int64_t round);

  int64_t next_round(int fragment) const { return next_[static_cast<size_t>(fragment)]; }
  int64_t retained_from() const { return retained_from_; }
  int subscribers() const { return static_cast<int>(subscribers_.size()); }
  // Payload bytes put into queues so far.
  uint64_t sent_bytes() const { return sent_bytes_; }

 private:
  int64_t retained_from_;
  std::vector<int64_t> next_;                                 // By fragment: the round after the newest published one.
  std::deque<std::shared_ptr<const PublishedDelta>> deltas_;  // In commit order.
  std::shared_ptr<const std::string> settings_;               // nullptr: nothing has changed.
  std::shared_ptr<const std::string> end_;
  std::map<std::string, std::shared_ptr<DeltaQueue>> subscribers_;  // By worker.
  uint64_t sent_bytes_ = 0;
};

}  // namespace diloco
