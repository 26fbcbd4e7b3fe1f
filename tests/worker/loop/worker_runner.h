// Runs workers with quadratic trainers against a FakeCoordinator, each in a thread, and keeps what they report.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "tests/worker/loop/fake_coordinator.h"
#include "tests/worker/loop/quadratic_trainer.h"
#include "worker/loop/run_worker.h"

namespace diloco {

class RunningWorker {
 public:
  struct Boundary {
    int64_t step = 0;
    int64_t round = 0;
    int64_t next_round = 0;
    int64_t version = 0;
    bool finite = true;
    bool waited = false;
    double blocked_seconds = 0;
    std::vector<float> theta;
  };

  static WorkerOptions Options(const std::string& address, const std::string& id) {
    WorkerOptions options;
    options.coordinator = address;
    options.worker_id = id;
    options.connect_timeout = absl::Seconds(20);
    options.chunk_bytes = 8;  // Two float32, so that small models travel in several chunks.
    options.backoff = {.first = absl::Milliseconds(5), .longest = absl::Milliseconds(100)};
    options.upload.quiet_limit = absl::Milliseconds(100);
    options.progress_interval = absl::ZeroDuration();
    options.leave_timeout = absl::Hours(1);
    return options;
  }

  RunningWorker(WorkerOptions options, QuadraticTrainer::Options trainer) {
    options.interrupt = &interrupt_;
    options.on_stop = [this](const StopReport& report) {
      MutexLock lock(&mutex_);
      boundaries_.push_back({report.step, report.round, report.next_round, report.version, report.finite, report.waited,
                             report.blocked_seconds, std::vector<float>(report.theta.begin(), report.theta.end())});
    };
    options.on_progress = [this](const WorkerStatus& status) {
      MutexLock lock(&mutex_);
      last_ = status;
    };
    options.on_consensus = [this](int fragment, int64_t version, const Digest& digest) {
      MutexLock lock(&mutex_);
      consensus_.emplace_back(fragment, version, digest);
    };
    thread_ = std::thread([this, options, trainer] {
      status_ = RunWorker(options, [this, &trainer](const RunConfig&) -> absl::StatusOr<std::unique_ptr<Trainer>> {
        auto made = std::make_unique<QuadraticTrainer>(trainer);
        trainer_ = made.get();
        return made;
      });
    });
  }
  ~RunningWorker() {
    if (thread_.joinable()) {
      interrupt_ = true;
      thread_.join();
    }
  }

  absl::Status Finish() {
    thread_.join();
    return status_;
  }
  void Interrupt() { interrupt_ = true; }

  std::vector<Boundary> boundaries() const {
    MutexLock lock(&mutex_);
    return boundaries_;
  }
  std::vector<std::tuple<int, int64_t, Digest>> consensus() const {
    MutexLock lock(&mutex_);
    return consensus_;
  }
  // Newest version that all fragments have reached.
  int64_t ConsensusVersion() const {
    MutexLock lock(&mutex_);
    std::map<int, int64_t> newest;
    for (const auto& [fragment, version, digest] : consensus_) {
      newest[fragment] = version;
    }
    int64_t oldest = newest.empty() ? -1 : newest.begin()->second;
    for (const auto& [fragment, version] : newest) oldest = std::min(oldest, version);
    return oldest;
  }
  WorkerStatus last() const {
    MutexLock lock(&mutex_);
    return last_;
  }

 private:
  std::atomic<bool> interrupt_ = false;
  mutable Mutex mutex_;
  std::vector<Boundary> boundaries_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::tuple<int, int64_t, Digest>> consensus_ ABSL_GUARDED_BY(mutex_);
  WorkerStatus last_ ABSL_GUARDED_BY(mutex_);
  QuadraticTrainer* trainer_ = nullptr;
  absl::Status status_;
  std::thread thread_;
};

}  // namespace diloco
