// The network between one worker and the coordinator: streams whose messages stay in order, over a link that delays
// them, may be cut, and breaks streams. No message is lost but with its stream, as over TCP. Different streams are not
// in order with each other.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"

#include "tests/sim/process.h"
#include "tests/sim/random.h"

namespace diloco::sim {

// After so long without a word the kernel gives a connection up.
inline constexpr absl::Duration kKeepalive = absl::Seconds(10);

struct LinkFaults {
  absl::Duration delay = absl::Milliseconds(5);   // One way, at least.
  absl::Duration jitter = absl::Milliseconds(1);  // More, at random.
  double break_chance = 0;                        // Of each message: its stream breaks instead.
  double half_open_chance = 0;                    // Of each break: one end does not hear of it before kKeepalive.
};

class Stream;

class Link {
 public:
  Link(EventLoop* loop, Random* random, LinkFaults faults) : loop_(*loop), random_(*random), faults_(faults) {}

  // Nothing gets through until then; what is sent meanwhile is late. Streams that hear nothing for kKeepalive break.
  void Cut(absl::Duration duration);
  bool cut() const { return loop_.Now() < cut_until_; }
  // No more breaks, and a cut is over at once.
  void Heal();

  std::shared_ptr<Stream> Open(Process* worker, Process* coordinator);

  // One way, from now on.
  MonotonicTime ArrivalTime();
  Random& random() { return random_; }
  EventLoop& loop() { return loop_; }
  const LinkFaults& faults() const { return faults_; }
  bool healed() const { return healed_; }

 private:
  EventLoop& loop_;
  Random& random_;
  LinkFaults faults_;
  MonotonicTime cut_until_;
  uint64_t cuts_ = 0;
  bool healed_ = false;
  std::vector<std::weak_ptr<Stream>> streams_;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  enum Side { kWorker = 0, kCoordinator = 1 };
  using OnClose = std::function<void(const absl::Status&)>;

  Stream(Link* link, Process* worker, Process* coordinator);

  // Called at most once, when the other end has closed the stream or it broke.
  void SetOnClose(Side side, OnClose on_close) { ends_[side].on_close = std::move(on_close); }

  // `deliver` runs at the other end, `written` at this one once the message has left. Neither does when the stream
  // breaks or this end closes before.
  void Send(Side from, const Task& deliver, const Task& written = nullptr);
  // This end is done: nothing more is delivered to it. The other end hears of it, behind what was sent before.
  void Close(Side from, const absl::Status& status);
  // The process of this end died. `silently`: the other end finds out by itself.
  void Die(Side side, bool silently);
  // Both ends hear of it, unless it stays half open.
  void Break();
  // This end hears that it broke.
  void BreakEnd(Side side, MonotonicTime when);

  bool open(Side side) const { return ends_[side].open; }

 private:
  struct End {
    Process* process = nullptr;
    uint64_t life = 0;
    bool open = true;
    OnClose on_close;
    MonotonicTime newest_arrival;
  };
  static Side Other(Side side) { return side == kWorker ? kCoordinator : kWorker; }
  void TellEnd(Side side, const absl::Status& status);
  // Runs `task` at an end that is open then.
  void RunAt(Side side, MonotonicTime when, const Task& task);

  Link& link_;
  End ends_[2];
  bool broken_ = false;
};

}  // namespace diloco::sim
