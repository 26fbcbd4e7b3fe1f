#include "worker/client/worker_status.h"

#include <gtest/gtest.h>

namespace diloco {
namespace {

TEST(WorkerStatusTest, WaitThatIsUnderWayCountsAsBlocked) {
  WorkerStatus status;
  status.wall_seconds = 6;
  status.blocked_seconds = 1;
  const MonotonicTime now{.nanoseconds = 9'000'000'000};
  EXPECT_DOUBLE_EQ(status.At(now).blocked_seconds, 1);
  status.waiting_since = MonotonicTime{.nanoseconds = 5'000'000'000};
  EXPECT_DOUBLE_EQ(status.At(now).blocked_seconds, 5);
  EXPECT_DOUBLE_EQ(status.At(now).wall_seconds, 10);
  EXPECT_DOUBLE_EQ(ToProgress(status.At(now)).blocked_seconds(), 5);
  EXPECT_DOUBLE_EQ(status.At(now).Utilization(), 0.5);
}

TEST(WorkerStatusTest, StalenessIsNeverNegative) {
  WorkerStatus status;
  status.round = 4;
  status.applied_version = 3;
  EXPECT_EQ(status.Staleness(), 1);
  status.applied_version = 5;
  EXPECT_EQ(status.Staleness(), 0);
}

}  // namespace
}  // namespace diloco
