// The coordinator's process in a simulated cluster: the product's store and driver on the simulated clock and disk.
// Work for the disk and the pool takes simulated time and ends in any order that real threads could give.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "coordinator/driver/driver.h"
#include "tests/sim/crash_points.h"
#include "tests/sim/disk.h"
#include "tests/sim/network.h"
#include "tests/sim/process.h"
#include "tests/sim/witness.h"

namespace diloco::sim {

class CoordinatorNode final : public Process, private DriverObserver {
 public:
  struct Options {
    RunConfig config;
    std::string yaml;
    absl::Duration disk_time = absl::Milliseconds(3);  // Of a task, at most.
    absl::Duration pool_time = absl::Milliseconds(5);
  };
  struct Parts {
    EventLoop* loop = nullptr;
    Random* random = nullptr;
    Disk* disk = nullptr;
    CrashPoints* points = nullptr;
    Witness* witness = nullptr;
  };
  // How a life ends, and what the disk keeps of what was not synced.
  struct Death {
    bool power_cut = false;  // Else the process is killed, and the disk keeps everything.
    Disk::Unsynced unsynced = Disk::Unsynced::kLost;
    bool silent = false;  // The workers find out by themselves.
  };

  CoordinatorNode(Options options, const Parts& parts);
  ~CoordinatorNode() override;

  // Starts the process: recovers, and takes calls when that is done. It may die on the way.
  void Boot();
  void Die(const Death& death);
  // How it dies where nobody says how: at an armed crash point.
  void SetDeath(const Death& death) { death_ = death; }
  // Told after each death and each end by an error of the store, so that somebody starts it again.
  void SetOnDown(std::function<void()> on_down) { on_down_ = std::move(on_down); }
  // Told when calls can be taken.
  void SetOnUp(std::function<void()> on_up) { on_up_ = std::move(on_up); }

  // Told before the driver publishes a global delta.
  void SetOnPublished(std::function<void(int fragment, int64_t round)> on_published) {
    on_published_ = std::move(on_published);
  }

  // Told why the run is held; empty: it goes on.
  void SetOnHold(std::function<void(const std::string& reason)> on_hold) { on_hold_ = std::move(on_hold); }

  // The run has ended, the final checkpoint is written and everybody has left or is lost.
  bool finished() const { return finished_; }
  // Nothing that the process does any more is seen outside.
  bool dying() const { return dying_; }

  // Valid while up(). After anything that gives the driver work: ScheduleTurn.
  Driver* driver() { return driver_.get(); }
  void ScheduleTurn();
  // A stream that ends when this process does.
  void Own(const std::shared_ptr<Stream>& stream);

  const RunConfig& config() const { return options_.config; }
  Disk& disk() { return disk_; }
  Witness& witness() { return witness_; }
  uint64_t deaths() const { return deaths_; }

 private:
  class Work;

  absl::Status Open();
  void Turn();
  void Submit(Work* executor, Task task);
  void RunWork(const std::string& name, const Task& task);
  // At a crash point. Inside the driver nothing can be taken away from under it; the turn's end sees to it.
  void Pass(const std::string& name, CrashSide side);
  void EndTurn();

  void ShowPaused(bool paused);

  // DriverObserver.
  void OnEffect(const RoundEffect& effect) override;
  void OnChunkReceived(const ContributionId& id, uint64_t payload_bytes) override;
  void OnCommitted(int fragment, int64_t round, absl::Duration since_opened, int merged, int dropped,
                   const std::string& reason) override;
  void OnRoundWaiting(int fragment, int64_t round, const std::string& reason) override;
  void OnHold(HoldCause cause, const std::string& reason) override;
  void OnRunPaused() override { ShowPaused(true); }
  void OnRunStopped(int64_t rounds) override {
    if (!dying_) witness_.OnRunStopped(rounds);
  }
  void OnRunResumed() override { ShowPaused(false); }
  // The next life finds the folder as it is.
  void OnStartAgain(const std::string& reason) override { fatal_ = absl::UnavailableError(reason); }
  void OnFatal(const absl::Status& status) override;
  void OnRunFinished() override { finished_ = true; }

  const Options options_;
  Random& random_;
  Disk& disk_;
  CrashPoints& points_;
  Witness& witness_;
  std::function<void()> on_down_;
  std::function<void()> on_up_;
  std::function<void(int, int64_t)> on_published_;
  std::function<void(const std::string&)> on_hold_;

  // Of a life.
  std::unique_ptr<Work> disk_work_;
  std::unique_ptr<Work> pool_work_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Driver> driver_;
  std::vector<std::weak_ptr<Stream>> streams_;
  bool turn_scheduled_ = false;
  uint64_t turns_ = 0;
  MonotonicTime due_;
  MonotonicTime disk_free_at_;
  bool dying_ = false;
  bool paused_ = false;
  std::optional<absl::Status> fatal_;
  bool in_turn_ = false;
  std::string effect_;         // That was carried out last in this turn; empty: none.
  bool merge_starts_ = false;  // The next work for the pool is a merge, or
  bool chunk_came_ = false;    // the check of a contribution.

  Death death_;
  bool finished_ = false;
  uint64_t deaths_ = 0;
};

}  // namespace diloco::sim
