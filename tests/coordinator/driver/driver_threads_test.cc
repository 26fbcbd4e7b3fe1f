// The driver with real threads: its own, one for the disk, two for merges, one a worker. For ThreadSanitizer.
#include <gtest/gtest.h>

#include <thread>

#include "coordinator/driver/thread_pool.h"
#include "tests/coordinator/driver/sim_cluster.h"

namespace diloco {
namespace {

TEST(DriverThreadsTest, WorkersOnThreadsReachTheSameConsensus) {
  const std::string yaml = RunYaml(3, 8, "e3m0", "int8", "rounds: {snapshot_every: 3, lease: 24h}\n");
  const RunConfig config = *ParseRunConfig(yaml, "test.yaml");
  testing::TempFolder folder;
  TestFileSystem files;
  RecoveredState recovered;
  auto store = Store::Open(&files, {.folder = folder.path(), .holder = "the test"}, &recovered);
  ASSERT_TRUE(store.ok()) << store.status();
  SteadyClock clock;
  RecordingObserver observer;
  ThreadPool disk(1);
  ThreadPool pool(2);
  auto driver = Driver::Create(
      {.config = config, .config_yaml = yaml, .checkpoint_folder = folder.File("checkpoints")},
      {.clock = &clock, .files = &files, .store = store->get(), .disk = &disk, .pool = &pool, .observer = &observer},
      std::move(recovered));
  ASSERT_TRUE(driver.ok()) << driver.status();
  std::thread driving([&] { (*driver)->Run(); });

  std::vector<std::unique_ptr<SimWorker>> workers;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    workers.push_back(std::make_unique<SimWorker>(config, std::string("w") + static_cast<char>('0' + i),
                                                  static_cast<uint64_t>(i) + 1, TwoFragments()));
    workers.back()->Connect(driver->get());
  }
  for (const auto& worker : workers) {
    threads.emplace_back([&worker] {
      while (!worker->done()) {
        if (!worker->Act()) {
          worker->Wait();
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  (*driver)->Shutdown();
  driving.join();
  for (const auto& worker : workers) {
    EXPECT_EQ(worker->version(), 8);
    EXPECT_EQ(worker->consensus()[0].ComputeDigest(), workers[0]->consensus()[0].ComputeDigest());
    EXPECT_EQ(worker->consensus()[1].ComputeDigest(), workers[0]->consensus()[1].ComputeDigest());
  }
  // A request after the end is answered all the same.
  Answer<v1::GetStatusResponse> answer;
  (*driver)->GetStatus({}, Into(&answer));
  ASSERT_TRUE(answer->has_value());
  EXPECT_EQ((*answer)->status().code(), absl::StatusCode::kUnavailable);
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
