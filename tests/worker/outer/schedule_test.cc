#include "worker/outer/schedule.h"

#include <gtest/gtest.h>

namespace diloco {
namespace {

Schedule Make(int64_t overlap_rounds, int max_late) {
  RunConfig config;
  config.inner_steps = 30;
  config.overlap = overlap_rounds * 30;
  config.max_late = max_late;
  config.run.rounds = 100;
  return Schedule(config);
}

TEST(ScheduleTest, BlockingBoundaryNeedsItsOwnAverage) {
  const Schedule schedule = Make(0, 0);
  EXPECT_EQ(schedule.Plan(0, 0).required, 1);
  EXPECT_EQ(schedule.Plan(0, 0).wanted, 1);
  EXPECT_EQ(schedule.Plan(7, 7).required, 8);
}

TEST(ScheduleTest, NothingHasArrivedAtTheFirstOverlappedBoundary) {
  const Schedule schedule = Make(1, 0);
  EXPECT_EQ(schedule.Plan(0, 0).required, 0);
  EXPECT_EQ(schedule.Plan(0, 0).wanted, 0);
  EXPECT_EQ(schedule.Plan(5, 4).required, 5);
}

TEST(ScheduleTest, MaxLateLowersOnlyWhatIsRequired) {
  const Schedule schedule = Make(1, 2);
  EXPECT_EQ(schedule.Plan(5, 4).wanted, 5);
  EXPECT_EQ(schedule.Plan(5, 4).required, 3);
  EXPECT_EQ(schedule.Plan(1, 0).required, 0);
}

TEST(ScheduleTest, AveragesAreNotAppliedBeforeTheirOverlap) {
  const Schedule schedule = Make(2, 0);
  EXPECT_EQ(schedule.Plan(5, 5).wanted, 4);
  EXPECT_EQ(schedule.Plan(5, 5).required, 4);
}

TEST(ScheduleTest, WorkerWhoseRoundClosedAppliesEverythingAndJumps) {
  const Schedule schedule = Make(1, 1);
  EXPECT_EQ(schedule.Plan(5, 9).wanted, 9);
  EXPECT_EQ(schedule.NextRound(5, 9), 9);
  EXPECT_EQ(schedule.NextRound(5, 5), 6);
  EXPECT_EQ(schedule.NextRound(5, 6), 6);
}

TEST(ScheduleTest, JoinerStartsFromTheAveragesThatItsFirstRoundContains) {
  EXPECT_EQ(Make(0, 0).StartVersion(5), 5);
  EXPECT_EQ(Make(1, 0).StartVersion(5), 4);
  EXPECT_EQ(Make(1, 0).StartVersion(0), 0);
}

}  // namespace
}  // namespace diloco
