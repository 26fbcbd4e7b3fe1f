// The streams that are open, so that a shutdown can tell each of them. Thread-safe.
#pragma once

#include <map>
#include <memory>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace diloco {

class DrainableStream {
 public:
  virtual ~DrainableStream() = default;
  // The coordinator is going: end at once, or after what is under way. Called without a lock.
  virtual void Drain() = 0;
};

class StreamSet {
 public:
  // Drains `stream` at once, and does not keep it, when Drain was called before.
  void Add(const std::shared_ptr<DrainableStream>& stream);
  void Remove(const DrainableStream* stream);
  void Drain();
  // Waits until every stream has been removed, or until `deadline`.
  void WaitUntilEmpty(MonotonicTime deadline);

 private:
  Mutex mutex_;
  CondVar emptied_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<const DrainableStream*, std::weak_ptr<DrainableStream>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace diloco
