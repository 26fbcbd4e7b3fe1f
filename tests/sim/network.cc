#include "tests/sim/network.h"

#include <algorithm>
#include <utility>

namespace diloco::sim {

void Link::Cut(absl::Duration duration) {
  if (healed_) return;
  cut_until_ = std::max(cut_until_, loop_.Now() + duration);
  std::erase_if(streams_, [](const auto& stream) { return stream.expired(); });
  if (duration <= kKeepalive) return;
  for (const auto& weak : streams_) {
    const std::shared_ptr<Stream> stream = weak.lock();
    for (const Stream::Side side : {Stream::kWorker, Stream::kCoordinator}) {
      stream->BreakEnd(side, loop_.Now() + kKeepalive);
    }
  }
}

void Link::Heal() {
  healed_ = true;
  faults_.break_chance = 0;
  cut_until_ = loop_.Now();
}

std::shared_ptr<Stream> Link::Open(Process* worker, Process* coordinator) {
  const HeapScope network(kHeapOfTest);
  auto stream = std::make_shared<Stream>(this, worker, coordinator);
  if (streams_.size() > 64) std::erase_if(streams_, [](const auto& each) { return each.expired(); });
  streams_.push_back(stream);
  return stream;
}

MonotonicTime Link::ArrivalTime() {
  const absl::Duration jitter = random_.Between(absl::ZeroDuration(), faults_.jitter);
  return std::max(loop_.Now(), cut_until_) + faults_.delay + jitter;
}

Stream::Stream(Link* link, Process* worker, Process* coordinator) : link_(*link) {
  ends_[kWorker].process = worker;
  ends_[kCoordinator].process = coordinator;
  for (End& end : ends_) end.life = end.process->life();
}

// What is on its way is neither end's: the network has a copy of it.
void Stream::RunAt(Side side, MonotonicTime when, const Task& task) {
  End& end = ends_[side];
  if (!end.process->lives(end.life)) return;
  const HeapScope network(kHeapOfTest);
  end.process->PostAt(when, [self = shared_from_this(), side, task] {
    if (self->ends_[side].open) task();
  });
}

void Stream::Send(Side from, const Task& deliver, const Task& written) {
  if (!ends_[from].open || broken_) return;
  if (link_.random().Chance(link_.faults().break_chance)) return Break();
  End& to = ends_[Other(from)];
  to.newest_arrival = std::max(link_.ArrivalTime(), to.newest_arrival);
  RunAt(Other(from), to.newest_arrival, deliver);
  if (written != nullptr) RunAt(from, link_.loop().Now() + absl::Microseconds(50), written);
}

void Stream::Close(Side from, const absl::Status& status) {
  if (!std::exchange(ends_[from].open, false) || broken_) return;
  broken_ = true;
  End& to = ends_[Other(from)];
  RunAt(Other(from), std::max(link_.ArrivalTime(), to.newest_arrival),
        [self = shared_from_this(), side = Other(from), status] { self->TellEnd(side, status); });
  ends_[from].on_close = nullptr;
}

void Stream::Die(Side side, bool silently) {
  ends_[side].open = false;
  ends_[side].on_close = nullptr;
  if (std::exchange(broken_, true)) return;
  BreakEnd(Other(side), silently ? link_.loop().Now() + kKeepalive : link_.ArrivalTime());
}

void Stream::Break() {
  if (std::exchange(broken_, true)) return;
  const bool half_open = link_.random().Chance(link_.faults().half_open_chance);
  const Side deaf = link_.random().Chance(0.5) ? kWorker : kCoordinator;
  for (const Side side : {kWorker, kCoordinator}) {
    BreakEnd(side, half_open && side == deaf ? link_.loop().Now() + kKeepalive : link_.ArrivalTime());
  }
}

void Stream::BreakEnd(Side side, MonotonicTime when) {
  RunAt(side, when, [self = shared_from_this(), side] {
    self->broken_ = true;
    self->TellEnd(side, absl::UnavailableError("the connection broke"));
  });
}

// What it holds is given up: it may hold the stream.
void Stream::TellEnd(Side side, const absl::Status& status) {
  ends_[side].open = false;
  const OnClose on_close = std::exchange(ends_[side].on_close, nullptr);
  if (on_close) on_close(status);
}

}  // namespace diloco::sim
