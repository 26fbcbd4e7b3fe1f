// Sixty-four workers on a small machine.
#include <gtest/gtest.h>

#include "tests/load/load_run.h"

namespace diloco::testing {
namespace {

TEST(LoadTest, SixtyFourWorkers) {
  const LoadOptions options{.workers = 64, .rounds = 8, .inner_steps = 5, .elements = 20'000, .tensors = 8};
  const absl::StatusOr<LoadReport> report = RunLoad(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->rounds_committed, options.rounds);
  EXPECT_EQ(report->merged, options.rounds * options.workers * options.fragments) << "everybody, in every round";
  EXPECT_EQ(report->reconnects, 0);
  // A worker is two connections, and a snapshot while it joins; no thread of the coordinator is a worker's own.
  EXPECT_LE(report->coordinator.open_files, 3 * options.workers + 64);
  EXPECT_LT(report->coordinator.threads, options.workers);
  // 4.125 bits a parameter for e3m0 up and 8.125 for int8 down, in blocks that are not always full.
  const double parameters = static_cast<double>(options.rounds * options.workers * options.elements);
  EXPECT_NEAR(8 * static_cast<double>(report->received_bytes) / parameters, 4.125, 0.01);
  EXPECT_NEAR(8 * static_cast<double>(report->sent_bytes) / parameters, 8.125, 0.01);
}

}  // namespace
}  // namespace diloco::testing
