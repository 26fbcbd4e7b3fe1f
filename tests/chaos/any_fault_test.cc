// Faults of every kind at random, also several at a time, on coordinator, workers, links and clocks. Then everything
// heals, and the run is whole again by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"

#include "tests/chaos/cluster.h"
#include "tests/chaos/is_ok.h"
#include "tests/chaos/preload.h"
#include "tests/chaos/seed.h"
#include "tests/support/tcp_proxy.h"

namespace diloco::testing {
namespace {

constexpr int kWorkers = 4;
constexpr int kDirect = 2;  // The others reach the coordinator over a link.

constexpr char kConfig[] =
    "run: {id: any, workers: 4, rounds: 1000000}\n"
    "method: eager\n"
    "inner_steps: 10\n"
    "fragments: {count: 2}\n"
    "rounds: {quorum: 2, heartbeat_interval: 200ms, lease: 3s, grace_window: 2s, snapshot_every: 5}\n";

struct Fault {
  std::string name;
  std::function<void()> strike;
  std::function<void()> heal;
  std::optional<absl::Time> heals_at;  // Absent: it is not on.
  int struck = 0;
};

class AnyFaultTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SetRealtimeShift(CoordinatorShift(), absl::ZeroDuration());
    SetRealtimeShift(WorkerShift(), absl::ZeroDuration());
    cluster_.emplace(ClusterOptions{.config_yaml = kConfig,
                                    .workers = kWorkers,
                                    .step_time = absl::Milliseconds(50),
                                    .coordinator = {.environment = ShiftedRealtime(CoordinatorShift())},
                                    .worker_environment = ShiftedRealtime(WorkerShift()),
                                    .checkpoints = true,
                                    .disk_bytes = int64_t{128} << 20});
    ASSERT_TRUE(IsOk(cluster_->StartCoordinator()));
    link_ = std::make_unique<TcpProxy>(cluster_->coordinator().port());
    for (int worker = 0; worker < kWorkers; ++worker) StartWorker(worker);
    ASSERT_TRUE(IsOk(cluster_->AwaitRounds(1)));
    for (int worker = 0; worker < kWorkers; ++worker) {
      Add(
          "kill " + Cluster::IdOf(worker), [this, worker] { cluster_->KillWorker(worker); },
          [this, worker] { StartWorker(worker); });
      Add(
          "stop " + Cluster::IdOf(worker), [this, worker] { cluster_->worker(worker).Signal(SIGSTOP); },
          [this, worker] { cluster_->worker(worker).Signal(SIGCONT); });
    }
    Add(
        "kill coordinator", [this] { cluster_->coordinator().Kill(); },
        [this] { ASSERT_TRUE(IsOk(cluster_->StartCoordinator())); });
    Add(
        "stop coordinator", [this] { cluster_->coordinator().process().Signal(SIGSTOP); },
        [this] { cluster_->coordinator().process().Signal(SIGCONT); });
    if (cluster_->disk()) {
      Add(
          "fill coordinator", [this] { cluster_->disk()->Fill(); }, [this] { cluster_->disk()->Free(); });
    }
    Add(
        "silence link", [this] { link_->Silence(); }, [this] { link_->Speak(); });
    Add(
        "hold bulk-link", [this] { link_->Hold(); }, [this] { link_->Open(); });
    Add(
        "slow bulk-rate", [this] { link_->SetRate(20'000); }, [this] { link_->SetRate(0); });
    Add(
        "reset link", [this] { link_->Reset(); }, [] {});
    Add(
        "step coordinator-clock", [this] { SetRealtimeShift(CoordinatorShift(), absl::Hours(1)); },
        [this] { SetRealtimeShift(CoordinatorShift(), absl::ZeroDuration()); });
    Add(
        "step worker-clock", [this] { SetRealtimeShift(WorkerShift(), -absl::Hours(1)); },
        [this] { SetRealtimeShift(WorkerShift(), absl::ZeroDuration()); });
  }

  void GoThroughFaultsFor(absl::Duration duration) {
    const absl::Time end = absl::Now() + duration;
    absl::Time next = absl::Now();
    while (absl::Now() < end) {
      if (absl::Now() >= next) {
        next = absl::Now() + seed_.Between(absl::Milliseconds(200), absl::Milliseconds(1500));
        Strike();
      }
      ASSERT_NO_FATAL_FAILURE(Heal(absl::Now()));
      absl::SleepFor(absl::Milliseconds(50));  // The faults are a matter of time.
    }
    ASSERT_NO_FATAL_FAILURE(Heal(absl::InfiniteFuture()));
    for (const Fault& fault : faults_) std::cout << "  " << fault.name << ": " << fault.struck << '\n';
    int64_t healed = -1;
    ASSERT_TRUE(IsOk(cluster_->Await([&] { return (healed = cluster_->RoundsCommitted()) >= 0; })));
    ASSERT_TRUE(IsOk(cluster_->AwaitEverybody(healed)));
    EXPECT_TRUE(IsOk(cluster_->CheckNothingLost()));
    for (int worker = 0; worker < kWorkers; ++worker) {
      EXPECT_TRUE(cluster_->worker(worker).running()) << cluster_->LogOf(worker);
    }
  }

 private:
  std::string CoordinatorShift() const { return folder_.File("coordinator"); }
  std::string WorkerShift() const { return folder_.File("workers"); }

  void StartWorker(int worker) {
    cluster_->StartWorkerThrough(worker, worker < kDirect ? cluster_->coordinator().address() : link_->address());
  }
  void Add(std::string name, std::function<void()> strike, std::function<void()> heal) {
    faults_.push_back({.name = std::move(name), .strike = std::move(strike), .heal = std::move(heal), .heals_at = {}});
  }

  // One fault at a time for each process: a dead one is not stopped, nor started again on a full disk.
  bool Blocked(const Fault& fault) const {
    const auto subject_of = [](const Fault& each) { return each.name.substr(each.name.find(' ') + 1); };
    return std::any_of(faults_.begin(), faults_.end(),
                       [&](const Fault& other) { return other.heals_at && subject_of(other) == subject_of(fault); });
  }

  void Strike() {
    Fault& fault = faults_[static_cast<size_t>(seed_.Below(static_cast<int>(faults_.size())))];
    if (Blocked(fault)) return;
    fault.strike();
    ++fault.struck;
    fault.heals_at = absl::Now() + seed_.Between(absl::Milliseconds(100), absl::Seconds(6));
  }

  void Heal(absl::Time now) {
    for (Fault& fault : faults_) {
      if (!fault.heals_at || *fault.heals_at > now) continue;
      fault.heal();
      fault.heals_at.reset();
    }
  }

  const TempFolder folder_;
  Seed seed_;
  std::optional<Cluster> cluster_;
  std::unique_ptr<TcpProxy> link_;
  std::vector<Fault> faults_;
};

TEST_F(AnyFaultTest, LeavesTheRunWhole) { GoThroughFaultsFor(absl::Seconds(15)); }
TEST_F(AnyFaultTest, LeavesTheRunWholeFull) { GoThroughFaultsFor(absl::Minutes(5)); }

}  // namespace
}  // namespace diloco::testing
