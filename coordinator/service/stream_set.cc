#include "coordinator/service/stream_set.h"

#include <vector>

namespace diloco {

void StreamSet::Add(const std::shared_ptr<DrainableStream>& stream) {
  {
    MutexLock lock(&mutex_);
    if (!draining_) {
      streams_.emplace(stream.get(), stream);
      return;
    }
  }
  stream->Drain();
}

void StreamSet::Remove(const DrainableStream* stream) {
  MutexLock lock(&mutex_);
  streams_.erase(stream);
  if (streams_.empty()) emptied_.NotifyAll();
}

void StreamSet::WaitUntilEmpty(MonotonicTime deadline) {
  MutexLock lock(&mutex_);
  while (!streams_.empty() && emptied_.WaitUntil(&mutex_, ToSteady(deadline))) {
  }
}

void StreamSet::Drain() {
  std::vector<std::shared_ptr<DrainableStream>> open;
  {
    MutexLock lock(&mutex_);
    draining_ = true;
    for (const auto& [key, weak] : streams_) {
      if (std::shared_ptr<DrainableStream> stream = weak.lock()) open.push_back(std::move(stream));
    }
  }
  for (const std::shared_ptr<DrainableStream>& stream : open) stream->Drain();
}

}  // namespace diloco
