// Nothing that the driver keeps grows with the length of a run or with how often workers come and go.
#include <gtest/gtest.h>
#include <malloc.h>

#include <filesystem>

#include "absl/strings/str_format.h"

#include "coordinator/driver/round_log.h"
#include "tests/coordinator/driver/hand_worker.h"

namespace diloco {
namespace {

// Nothing else of the process allocates: one thread, and what the test's observer records is dropped.
size_t HeapInUse() { return mallinfo2().uordblks; }

class DriverGrowthTest : public ::testing::Test {
 protected:
  // More rounds than any list of them keeps, and then as many again.
  static constexpr int64_t kSettled = static_cast<int64_t>(kMaxRoundSummaries) + 100;
  static constexpr int64_t kRounds = 2 * kSettled;

  DriverGrowthTest()
      : coordinator_(absl::StrFormat("run: {id: test, workers: 1, rounds: %d}\n"
                                     "method: eager\ninner_steps: 4\nfragments: {count: 2}\n"
                                     "wire: {uplink: fp32, downlink: fp32}\nrounds: {grace_window: 0s}\n",
                                     kRounds + 2)) {
    EXPECT_TRUE(coordinator_.Start().ok());
    EXPECT_TRUE(east_.Join().ok());
    EXPECT_TRUE(east_.Seed(std::vector<float>(11, 1.0F)).ok());
  }

  // A worker dies in the middle of everything: its session is open, its subscription too, of its contributions there is
  // a part, and one was refused. Its successor finds all that.
  void Crash(int64_t round) {
    HandWorker west(&coordinator_, "west", static_cast<uint64_t>(round) + 2);
    if (session_.token != 0) coordinator_.driver->CloseSession(session_.token);
    ASSERT_TRUE(west.Join().ok());
    v1::SessionRequest heartbeat = west.Heartbeat();
    heartbeat.mutable_progress()->set_step(round);
    west.Send(west.OpenSession(), heartbeat);
    session_ = west.OpenSession();  // Replaces the first.
    west.Send(session_, heartbeat);
    ASSERT_TRUE(west.Subscribe({round, round}).ok());
    const auto part = west.Upload(west.Chunks(0, round + 1, 2.0F).front());
    ASSERT_EQ(part->verdict(), v1::CONTRIBUTION_VERDICT_UNSPECIFIED) << part->reason();
    v1::UploadRequest wrong = west.Chunks(1, round + 1, 2.0F).front();
    wrong.set_weight(-1);
    ASSERT_EQ(west.Upload(wrong)->verdict(), v1::CONTRIBUTION_VERDICT_REFUSED);
  }

  void Round(int64_t round) {
    Crash(round);
    for (int fragment = 0; fragment < 2; ++fragment) {
      ASSERT_EQ(east_.Contribute(fragment, round, 1.0F)->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
    }
    ASSERT_EQ(coordinator_.observer.committed, 2);
    coordinator_.observer.committed = 0;
    for (auto* list : {&coordinator_.observer.lost, &coordinator_.observer.reasons, &coordinator_.observer.waiting}) {
      list->clear();
    }
    coordinator_.observer.snapshots.clear();
    coordinator_.files.changes.clear();
  }

  Coordinator coordinator_;
  HandWorker east_{&coordinator_, "east", 1};
  HandWorker::Session session_;
};

TEST_F(DriverGrowthTest, MemoryAndFilesAreThoseOfAShortRun) {
  size_t settled = 0;
  for (int64_t round = 0; round < kRounds && !HasFatalFailure(); ++round) {
    if (round == kSettled) settled = HeapInUse();
    Round(round);
  }
  EXPECT_LE(HeapInUse(), settled + (16 << 10)) << "after as many rounds again";
  const auto files = std::filesystem::recursive_directory_iterator(coordinator_.data());
  EXPECT_LE(std::distance(begin(files), end(files)), 10);
}

}  // namespace
}  // namespace diloco
