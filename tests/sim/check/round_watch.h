// Every round closes or says why it does not, and none closes before its time. Knows the rules of the configuration,
// and of the product only the sentences that people are given and what workers are answered.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/config/run_config.h"
#include "tests/sim/event_loop.h"

namespace diloco::sim {

class RoundWatch {
 public:
  // The pointers outlive the object.
  RoundWatch(const RunConfig* config, const EventLoop* loop) : config_(*config), loop_(*loop) {}

  // The coordinator starts, and has opened nothing yet.
  void OnStarted();
  // It will stand still for so long: nothing is overdue for that.
  void OnStopped(absl::Duration duration) { stopped_ += duration; }
  // The run is held, and why; empty: it goes on.
  void OnHold(const std::string& reason);
  // An operator pauses the run, or lets it go on.
  void OnPaused(bool paused);
  // An operator has ended the run with so many rounds: those behind them never close.
  void OnRunStopped(int64_t rounds);
  // A contribution was acknowledged as stored.
  void OnStored(int fragment, int64_t round) { stored_.try_emplace({fragment, round}, loop_.Now()); }
  // Its set is fixed.
  void OnClosed(int fragment, int64_t round);

  // These return the rule that is broken, in a sentence; nullopt: none.
  // Why the oldest round of the fragment has not closed.
  std::optional<std::string> OnWaiting(int fragment, int64_t round, const std::string& reason);
  // Why it has.
  std::optional<std::string> OnCommitted(int fragment, int64_t round, const std::string& reason) const;
  // To be asked now and then, while the coordinator is there and not stopped.
  std::optional<std::string> FindOverdue() const;

 private:
  using Place = std::pair<int, int64_t>;  // Fragment, round.
  struct Waiting {
    int64_t round = 0;
    MonotonicTime since;  // With its quorum met.
    absl::Duration stopped_before;
    std::string reason;
  };

  const RunConfig& config_;
  const EventLoop& loop_;
  MonotonicTime started_;
  absl::Duration stopped_;  // In all.
  bool held_ = false;
  bool paused_ = false;
  std::map<int, Waiting> waiting_;  // By fragment: only for the grace window or the timeout.
  // In this life of the coordinator. Of stored ones, the first.
  std::map<Place, MonotonicTime> stored_;
  std::map<Place, MonotonicTime> closed_;
};

}  // namespace diloco::sim
