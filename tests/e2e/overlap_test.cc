// Whether the network hides behind compute, without a clock: the link of each worker carries a fixed number of bytes an
// inner step, so that a round's upload and download together take 0.5 to 0.8 of H inner steps. Then the eager method
// waits at no boundary after the second, and the blocking one at each. When a trainer waits, that is counted and the
// link opens.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"

#include "common/base/mutex.h"
#include "common/codec/codec.h"
#include "tests/support/coordinator_process.h"
#include "tests/support/drift_trainer.h"
#include "tests/support/process.h"
#include "tests/support/tcp_proxy.h"
#include "worker/loop/run_worker.h"

namespace diloco {
namespace {

using testing::CoordinatorProcess;
using testing::DriftTrainer;
using testing::TcpProxy;
using testing::TempFolder;

constexpr int kWorkers = 2;
constexpr int kInnerSteps = 10;
constexpr int kRounds = 8;
constexpr int kTensors = 8;
constexpr int64_t kElements = 64 << 10;  // A tensor.
constexpr auto kPatience = std::chrono::seconds(60);

// The link of one worker, in step time: capacity that a step does not use is gone.
class SteppedLink {
 public:
  SteppedLink(int target_port, uint64_t bytes_per_step) : proxy_(target_port), bytes_per_step_(bytes_per_step) {
    proxy_.OnForwarded([this] {
      MutexLock lock(&mutex_);
      changed_.NotifyAll();
    });
  }

  std::string address() const { return proxy_.address(); }
  uint64_t moved() const { return proxy_.upstream_bytes() + proxy_.downstream_bytes(); }
  bool late() const { return late_; }

  // An inner step of `round`: over when its bytes have moved, or nothing is on its way any more: the averages that the
  // round's boundary needs have all arrived.
  void Step(int64_t round) {
    proxy_.Hold();
    proxy_.Grant(bytes_per_step_);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    MutexLock lock(&mutex_);
    while (proxy_.granted() > 0 && Arrived() < round) {
      if (!changed_.WaitUntil(&mutex_, deadline)) {
        late_ = true;
        return;
      }
    }
  }
  void Open() { proxy_.Open(); }

  void NoteConsensus(int fragment, int64_t version) {
    MutexLock lock(&mutex_);
    versions_[fragment] = version;
    changed_.NotifyAll();
  }

 private:
  int64_t Arrived() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    int64_t oldest = versions_.empty() ? 0 : versions_.begin()->second;
    for (const auto& [fragment, version] : versions_) oldest = std::min(oldest, version);
    return oldest;
  }

  TcpProxy proxy_;
  const uint64_t bytes_per_step_;
  std::atomic<bool> late_ = false;
  Mutex mutex_;
  CondVar changed_;
  std::map<int, int64_t> versions_ ABSL_GUARDED_BY(mutex_);
};

// Every step takes its link's bytes first.
class SteppedTrainer final : public DriftTrainer {
 public:
  explicit SteppedTrainer(SteppedLink* link)
      : DriftTrainer({.elements = kTensors * kElements, .tensors = kTensors}), link_(link) {}

  absl::StatusOr<StepReport> Step(int64_t step, double rate) override {
    link_->Step(step / kInnerSteps);
    return DriftTrainer::Step(step, rate);
  }

 private:
  SteppedLink* const link_;
};

struct Outcome {
  std::vector<std::vector<bool>> waited;  // By worker, by round.
  double share = 0;                       // Of H inner steps that a round's transfers take.
};

// Runs `method` on links that carry the traffic of a round in about `share` of H inner steps.
Outcome RunOnLinks(const std::string& method, double share) {
  const TempFolder folder;
  CoordinatorProcess coordinator(folder.path(),
                                 absl::StrFormat("run: {id: overlap, workers: %d, rounds: %d}\n"
                                                 "method: %s\n"
                                                 "inner_steps: %d\n"
                                                 "max_late: 0\n"
                                                 "fragments: {count: %d}\nwire: {uplink: e3m0, downlink: int8}\n"
                                                 "rounds: {heartbeat_interval: 200ms, lease: 60s}\n",
                                                 kWorkers, kRounds, method, kInnerSteps, kTensors));
  EXPECT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  const uint64_t payload =
      kTensors * (FindCodec("e3m0")->encoded_bytes(kElements) + FindCodec("int8")->encoded_bytes(kElements));
  const auto bytes_per_step = static_cast<uint64_t>(static_cast<double>(payload) / (share * kInnerSteps));

  Outcome outcome;
  outcome.waited.resize(kWorkers, std::vector<bool>(kRounds, false));
  std::vector<std::unique_ptr<SteppedLink>> links;
  for (int m = 0; m < kWorkers; ++m) {
    links.push_back(std::make_unique<SteppedLink>(coordinator.port(), bytes_per_step));
  }
  std::vector<uint64_t> moved_before(kWorkers, 0);
  std::vector<std::thread> threads;
  for (int m = 0; m < kWorkers; ++m) {
    threads.emplace_back([&, m] {
      const auto at = static_cast<size_t>(m);
      SteppedLink* link = links[at].get();
      WorkerOptions options;
      options.coordinator = link->address();
      options.worker_id = absl::StrFormat("w%d", m);
      options.on_consensus = [link](int fragment, int64_t version, const Digest&) {
        link->NoteConsensus(fragment, version);
      };
      options.on_wait = [link](int64_t /*round*/) { link->Open(); };
      options.on_stop = [&, link, at](const StopReport& report) {
        outcome.waited[at][static_cast<size_t>(report.round)] = report.waited;
        if (report.round == 0) moved_before[at] = link->moved();
        if (report.next_round == kRounds) link->Open();
      };
      const absl::Status status =
          RunWorker(options, [link](const RunConfig&) { return std::make_unique<SteppedTrainer>(link); });
      EXPECT_TRUE(status.ok()) << status;
      link->Open();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int m = 0; m < kWorkers; ++m) {
    const SteppedLink& link = *links[static_cast<size_t>(m)];
    EXPECT_FALSE(link.late()) << "bytes of an inner step never moved";
    const auto moved = static_cast<double>(link.moved() - moved_before[static_cast<size_t>(m)]);
    outcome.share = std::max(outcome.share, moved / kRounds / static_cast<double>(bytes_per_step * kInnerSteps));
  }
  return outcome;
}

TEST(OverlapTest, EagerNeverWaitsWhereBlockingWaitsAtEachBoundary) {
  const Outcome eager = RunOnLinks("eager", 0.65);
  EXPECT_GT(eager.share, 0.5);
  EXPECT_LT(eager.share, 0.8);
  const Outcome blocking = RunOnLinks("diloco", 0.65);
  for (size_t m = 0; m < kWorkers; ++m) {
    for (size_t round = 2; round < kRounds; ++round) {
      EXPECT_FALSE(eager.waited[m][round]) << "worker " << m << " waited at boundary " << round;
    }
    for (size_t round = 0; round < kRounds; ++round) {
      EXPECT_TRUE(blocking.waited[m][round]) << "worker " << m << " did not wait at boundary " << round;
    }
  }
}

// The same link with too little capacity: what the test above claims is not true of any link.
TEST(OverlapTest, EagerWaitsOnALinkThatCannotKeepUp) {
  const Outcome eager = RunOnLinks("eager", 1.5);
  int waits = 0;
  for (const std::vector<bool>& rounds : eager.waited)
    waits += static_cast<int>(std::count(rounds.begin(), rounds.end(), true));
  EXPECT_GT(waits, 0);
}

}  // namespace
}  // namespace diloco
