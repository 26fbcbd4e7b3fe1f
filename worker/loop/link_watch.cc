#include "worker/loop/link_watch.h"

#include <utility>

#include "common/log/log.h"

namespace diloco {
namespace {

constexpr absl::Duration kLookEvery = absl::Seconds(1);
// A connection that is back within this long is no news.
constexpr absl::Duration kBrief = absl::Seconds(5);
// From one line to the next while nothing changes.
constexpr absl::Duration kSayAgain = absl::Minutes(1);

}  // namespace

LinkWatch::LinkWatch(const CoordinatorLink* link, std::shared_ptr<grpc::Channel> channel)
    : link_(link), channel_(std::move(channel)), thread_([this] { Run(); }) {}

LinkWatch::~LinkWatch() {
  {
    MutexLock lock(&mutex_);
    ending_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

bool LinkWatch::Connected() const {
  const grpc_connectivity_state state = channel_->GetState(/*try_to_connect=*/false);
  return state == GRPC_CHANNEL_READY || state == GRPC_CHANNEL_IDLE;
}

bool LinkWatch::Sleep(absl::Duration duration) {
  const MonotonicTime end = clock_.Now() + duration;
  MutexLock lock(&mutex_);
  while (!ending_ && clock_.Now() < end) changed_.WaitUntil(&mutex_, ToSteady(end));
  return !ending_;
}

void LinkWatch::Run() {
  MonotonicTime say_at = clock_.Now() + kBrief;
  while (Sleep(kLookEvery)) {
    const MonotonicTime now = clock_.Now();
    if (Connected()) {
      say_at = now + kBrief;
    } else if (now >= say_at) {
      const absl::Status fault = link_->Diagnose();
      if (!fault.ok()) LogWarning("coordinator_unreachable", {{"reason", fault.message()}});
      say_at = clock_.Now() + kSayAgain;
    }
  }
}

}  // namespace diloco
