#include "coordinator/ctl/format.h"

#include <gtest/gtest.h>

#include <cmath>

namespace diloco {
namespace {

TEST(FormatTest, Durations) {
  EXPECT_EQ(HumanDuration(0), "0.0s");
  EXPECT_EQ(HumanDuration(-3), "0.0s");
  EXPECT_EQ(HumanDuration(12.34), "12.3s");
  EXPECT_EQ(HumanDuration(59.94), "59.9s");
  EXPECT_EQ(HumanDuration(59.96), "1m00s");
  EXPECT_EQ(HumanDuration(185), "3m05s");
  EXPECT_EQ(HumanDuration(3599.4), "59m59s");
  EXPECT_EQ(HumanDuration(3600), "1h00m");
  EXPECT_EQ(HumanDuration(7500), "2h05m");
  EXPECT_EQ(HumanDuration(86400 * 4 + 3600 * 6 + 59), "4d06h");
  EXPECT_EQ(HumanDuration(INFINITY), "-");
  EXPECT_EQ(HumanDuration(NAN), "-");
}

TEST(FormatTest, Bytes) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(999), "999 B");
  EXPECT_EQ(HumanBytes(1000), "1.0 kB");
  EXPECT_EQ(HumanBytes(999'949), "999.9 kB");
  EXPECT_EQ(HumanBytes(999'950), "1.0 MB");
  EXPECT_EQ(HumanBytes(12'345'678), "12.3 MB");
  EXPECT_EQ(HumanBytes(UINT64_MAX), "18.4 EB");
}

TEST(FormatTest, Losses) {
  EXPECT_EQ(LossText(1.23456), "1.2346");
  EXPECT_EQ(LossText(NAN), "-");
  EXPECT_EQ(LossText(-INFINITY), "-");
}

TEST(FormatTest, Utilization) {
  v1::WorkerProgress progress;
  EXPECT_EQ(UtilizationText(progress), "-");
  progress.set_wall_seconds(200);
  EXPECT_EQ(UtilizationText(progress), "100.0");
  progress.set_blocked_seconds(3);
  EXPECT_EQ(UtilizationText(progress), "98.5");
  progress.set_blocked_seconds(300);
  EXPECT_EQ(UtilizationText(progress), "0.0");
}

TEST(FormatTest, States) {
  EXPECT_EQ(StateText(v1::RUN_STATE_WAITING_FOR_WORKERS), "waiting for workers");
  EXPECT_EQ(StateText(v1::ROUND_STATE_COLLECTING), "collecting");
  EXPECT_EQ(StateText(v1::WORKER_STATE_ALIVE), "alive");
  EXPECT_EQ(SettlementText(v1::SETTLEMENT_DROPPED_LATE), "dropped late");
  EXPECT_EQ(StateText(static_cast<v1::WorkerState>(77)), "state 77") << "of a newer coordinator";
}

}  // namespace
}  // namespace diloco
