#include "coordinator/driver/disk_retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/limits.h"

namespace diloco {
namespace {

TEST(DiskRetryTest, WaitsTwiceAsLongEachTimeUpToTheLongest) {
  DiskRetry retry;
  MonotonicTime now;
  EXPECT_TRUE(retry.Due(now));
  absl::Duration expected = kFirstDiskRetry;
  for (int refusal = 0; refusal < 10; ++refusal) {
    retry.Refused(absl::ResourceExhaustedError("full"), now);
    EXPECT_EQ(retry.at() - now, expected) << refusal;
    EXPECT_FALSE(retry.Due(now + (expected - absl::Nanoseconds(1))));
    now = retry.at();
    EXPECT_TRUE(retry.Due(now));
    expected = 2 * expected < kLongestDiskRetry ? 2 * expected : kLongestDiskRetry;
  }
  EXPECT_EQ(expected, kLongestDiskRetry);
  retry.Taken();
  EXPECT_FALSE(retry.waiting());
  retry.Refused(absl::ResourceExhaustedError("full"), now);
  EXPECT_EQ(retry.at() - now, kFirstDiskRetry);
}

}  // namespace
}  // namespace diloco
