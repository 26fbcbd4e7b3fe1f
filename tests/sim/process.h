// A process of the cluster: what it has set out to do is gone when it dies, and waits while it is stopped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "tests/sim/event_loop.h"
#include "tests/sim/heap.h"

namespace diloco::sim {

class Process {
 public:
  // What it allocates is charged to `heap`.
  Process(EventLoop* loop, std::string name, int heap) : loop_(*loop), name_(std::move(name)), heap_(heap) {}
  virtual ~Process() = default;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& name() const { return name_; }
  // The most bytes that it has held between two things that it did, over all its lives.
  int64_t most_held() const { return most_held_; }
  bool up() const { return up_; }
  // Counts starts; names the one in progress.
  uint64_t life() const { return life_; }
  bool lives(uint64_t life) const { return up_ && life_ == life; }
  bool stopped() const { return up_ && loop_.Now() < stopped_until_; }

  // Runs `task` when `delay` is over, or later when the process is stopped then; not at all once this life is over.
  template <typename F>
  void Post(absl::Duration delay, F task) {
    PostAt(loop_.Now() + delay, std::move(task));
  }
  template <typename F>
  void PostAt(MonotonicTime when, F task) {
    const HeapScope waits(kHeapOfTest);
    loop_.At(when, [this, life = life_, task = Task(std::move(task))] { Run(life, task); });
  }

  // As SIGSTOP, with a SIGCONT after `duration`.
  void Stop(absl::Duration duration) { stopped_until_ = std::max(stopped_until_, loop_.Now() + duration); }

 protected:
  void BeginLife() {
    ++life_;
    up_ = true;
    stopped_until_ = loop_.Now();
    held_.clear();
  }
  void EndLife() { up_ = false; }
  int heap() const { return heap_; }

  EventLoop& loop_;

 private:
  void Run(uint64_t life, const Task& task) {
    if (!lives(life)) return;
    // What comes while it is stopped waits in its order.
    if (!stopped() && held_.empty()) return Do(task);
    held_.push_back(task);
    if (held_.size() == 1) loop_.At(std::max(stopped_until_, loop_.Now()), [this, life] { Resume(life); });
  }
  void Do(const Task& task) {
    {
      const HeapScope own(heap_);
      task();
    }
    most_held_ = std::max(most_held_, HeapBytes(heap_));
  }
  void Resume(uint64_t life) {
    if (!lives(life)) return;
    if (stopped()) return loop_.At(stopped_until_, [this, life] { Resume(life); });
    while (lives(life) && !stopped() && !held_.empty()) {
      const Task task = std::move(held_.front());
      held_.pop_front();
      Do(task);
    }
  }

  const std::string name_;
  const int heap_;
  int64_t most_held_ = 0;
  bool up_ = false;
  uint64_t life_ = 0;
  MonotonicTime stopped_until_;
  std::deque<Task> held_;
};

}  // namespace diloco::sim
