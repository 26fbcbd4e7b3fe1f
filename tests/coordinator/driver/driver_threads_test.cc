// The driver with real threads: its own, one for the disk, two for merges, one a worker. For ThreadSanitizer.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "coordinator/driver/thread_pool.h"
#include "tests/coordinator/driver/hand_worker.h"
#include "tests/coordinator/driver/sim_cluster.h"

namespace diloco {
namespace {

// A driver on threads of its own, on a data folder that outlives it.
class ThreadedCoordinator {
 public:
  ThreadedCoordinator(const std::string& yaml, const std::string& folder) : disk_(1), pool_(2) {
    RecoveredState recovered;
    store_ = *Store::Open(&files_, {.folder = folder, .holder = "the test"}, &recovered);
    driver_ = *Driver::Create({.config = *ParseRunConfig(yaml, "test.yaml"),
                               .config_yaml = yaml,
                               .checkpoint_folder = folder + "/checkpoints"},
                              {.clock = &clock_,
                               .files = &files_,
                               .store = store_.get(),
                               .disk = &disk_,
                               .pool = &pool_,
                               .observer = &observer_},
                              std::move(recovered));
    thread_ = std::thread([this] { driver_->Run(); });
  }
  ~ThreadedCoordinator() { Stop(); }

  void Stop() {
    if (thread_.joinable()) {
      driver_->Shutdown();
      thread_.join();
    }
  }
  Driver* driver() { return driver_.get(); }

 private:
  TestFileSystem files_;
  SteadyClock clock_;
  RecordingObserver observer_;
  std::unique_ptr<Store> store_;
  ThreadPool disk_;
  ThreadPool pool_;
  std::unique_ptr<Driver> driver_;
  std::thread thread_;
};

class DriverThreadsTest : public ::testing::Test {
 protected:
  static constexpr int kWorkers = 3;
  static constexpr int kRounds = 8;

  DriverThreadsTest() {
    for (int i = 0; i < kWorkers; ++i) {
      workers_.push_back(std::make_unique<SimWorker>(*ParseRunConfig(yaml_, "test.yaml"),
                                                     std::string("w") + static_cast<char>('0' + i),
                                                     static_cast<uint64_t>(i) + 1, TwoFragments()));
    }
  }

  // Each worker on a thread of its own, until it is done or has reached `version`.
  void RunWorkers(Driver* driver, int64_t version) {
    std::vector<std::thread> threads;
    for (const auto& worker : workers_) {
      worker->Connect(driver);
      threads.emplace_back([&worker, version] {
        while (!worker->done() && worker->version() < version) {
          if (!worker->Act()) {
            worker->Wait();
          }
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }

  void ExpectSameConsensus() {
    for (const auto& worker : workers_) {
      EXPECT_TRUE(worker->done());
      EXPECT_EQ(worker->version(), kRounds);
      EXPECT_EQ(worker->merged().size(), 2U * kRounds);
      for (size_t fragment = 0; fragment < 2; ++fragment) {
        EXPECT_EQ(worker->consensus()[fragment].ComputeDigest(), workers_[0]->consensus()[fragment].ComputeDigest());
      }
    }
  }

  const std::string yaml_ = RunYaml(kWorkers, kRounds, "e3m0", "int8", "rounds: {snapshot_every: 3, lease: 24h}\n");
  testing::TempFolder folder_;
  std::vector<std::unique_ptr<SimWorker>> workers_;
};

TEST_F(DriverThreadsTest, WorkersReachTheSameConsensus) {
  ThreadedCoordinator coordinator(yaml_, folder_.path());
  RunWorkers(coordinator.driver(), kRounds + 1);
  ExpectSameConsensus();
  coordinator.Stop();
  // A request after the end is answered all the same.
  Answer<v1::GetStatusResponse> answer;
  coordinator.driver()->GetStatus({}, Into(&answer));
  ASSERT_TRUE(answer->has_value());
  EXPECT_EQ((*answer)->status().code(), absl::StatusCode::kUnavailable);
}

// Stopped with work in flight on every executor, and started again on the same folder.
TEST_F(DriverThreadsTest, ARestartInMidRunChangesNothing) {
  {
    ThreadedCoordinator coordinator(yaml_, folder_.path());
    RunWorkers(coordinator.driver(), 4);
  }
  ThreadedCoordinator coordinator(yaml_, folder_.path());
  RunWorkers(coordinator.driver(), kRounds + 1);
  ExpectSameConsensus();
}

// Its process was stopped, or starved, for longer than the lease: that was not the workers' silence.
TEST(DriverPauseTest, APauseOfTheDriverLosesNobody) {
  Coordinator coordinator(RunYaml(1, 2, "fp32", "fp32"));
  ASSERT_TRUE(coordinator.Start().ok());
  HandWorker east(&coordinator, "east", 1);
  ASSERT_TRUE(east.Join().ok());
  std::thread thread([&coordinator] { coordinator.driver->Run(); });
  const auto workers_alive = [&coordinator] {
    std::promise<uint32_t> alive;
    coordinator.driver->GetStatus({}, [&alive](const absl::StatusOr<v1::GetStatusResponse>& status) {
      alive.set_value(status->workers_alive());
    });
    return alive.get_future().get();
  };
  EXPECT_EQ(workers_alive(), 1U);
  EXPECT_EQ(workers_alive(), 1U);  // The turn that begins with a tick is over.
  coordinator.clock.Advance(absl::Hours(1));
  EXPECT_EQ(workers_alive(), 1U);
  EXPECT_EQ(workers_alive(), 1U);  // After the turn that saw the clock.
  coordinator.driver->Shutdown();
  thread.join();
}

TEST(ThreadPoolTest, ParallelForRunsEachIndexOnce) {
  ThreadPool pool(3);
  const ParallelFor parallel_for = ParallelForOn(&pool);
  std::vector<std::atomic<int>> counts(1000);
  parallel_for(1000, [&counts](int64_t i) { ++counts[static_cast<size_t>(i)]; });
  for (const std::atomic<int>& count : counts) {
    EXPECT_EQ(count.load(), 1);
  }
  parallel_for(0, [](int64_t) { FAIL(); });
}

// As a merge does: a task of the pool that spreads its work over the same pool.
TEST(ThreadPoolTest, ParallelForInsideTheOnlyThreadFinishes) {
  std::atomic<int> sum = 0;
  {
    ThreadPool pool(1);
    pool.Submit([&] { ParallelForOn (&pool)(10, [&sum](int64_t i) { sum += static_cast<int>(i); }); });
  }
  EXPECT_EQ(sum.load(), 45);
}

TEST(ThreadPoolTest, OneThreadKeepsTheOrderAndTheEndRunsEverything) {
  std::vector<int> order;
  {
    ThreadPool pool(1);
    for (int i = 0; i < 100; ++i) {
      pool.Submit([&order, i] { order.push_back(i); });
    }
  }
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(order[static_cast<size_t>(i)], i);
  }
}

}  // namespace
}  // namespace diloco
