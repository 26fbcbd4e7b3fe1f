#include "worker/outer/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace diloco {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kInnerSteps = 30;
constexpr int64_t kRounds = 4;

RunConfig Config(int64_t overlap, int max_late = 0, const std::vector<int64_t>& offsets = {0}) {
  RunConfig config;
  config.inner_steps = kInnerSteps;
  config.overlap = overlap;
  config.max_late = max_late;
  config.run.rounds = kRounds;
  config.fragments.offsets = "";
  config.fragments.offset_list = offsets;
  return config;
}

Schedule Make(int64_t overlap, int max_late = 0, const std::vector<int64_t>& offsets = {0}) {
  return Schedule(Config(overlap, max_late, offsets), static_cast<int>(offsets.size()));
}

// Every stop of a fragment, such as "30:take0" or "120:set2" or "60:both1".
std::vector<std::string> Stops(const Schedule& schedule, int fragment, int64_t step = 0, int64_t first_round = 0) {
  std::vector<std::string> stops;
  for (auto stop = schedule.FirstAfter(fragment, step, first_round); stop;
       stop = schedule.Next(fragment, *stop, first_round)) {
    stops.push_back(std::to_string(stop->step) +
                    (stop->takes && stop->sets ? ":both"
                     : stop->takes             ? ":take"
                                               : ":set") +
                    std::to_string(stop->round));
  }
  return stops;
}

TEST(ScheduleTest, RoundsEndEveryHSteps) {
  for (const int64_t overlap : {int64_t{0}, kInnerSteps, 2 * kInnerSteps}) {
    EXPECT_THAT(Stops(Make(overlap), 0), ElementsAre("30:both0", "60:both1", "90:both2", "120:both3"));
  }
}

TEST(ScheduleTest, ARunThatIsMadeLongerGoesOnWhereItWasToEnd) {
  Schedule schedule = Make(kInnerSteps, 0, {0, 7});
  schedule.SetRounds(6);
  // At the old end both have ended round 3; the next ends of the one with an offset are where they always were.
  EXPECT_EQ(schedule.Refit(0, 120, 0, 4), (Stop{.step = 150, .round = 4, .takes = true, .sets = true}));
  EXPECT_EQ(schedule.Refit(1, 120, 0, 4), (Stop{.step = 157, .round = 4, .takes = true, .sets = true}));
  EXPECT_EQ(schedule.Refit(1, 150, 0, 5), (Stop{.step = 180, .round = 5, .takes = true, .sets = true}));
  // In the midst of the last round as it was: it ends at its offset now.
  EXPECT_EQ(schedule.Refit(1, 100, 0, 3), (Stop{.step = 127, .round = 3, .takes = true, .sets = true}));
  // With an overlap of a few steps the average of what was the last round is applied after all.
  Schedule streaming = Make(5);
  streaming.SetRounds(6);
  EXPECT_EQ(streaming.Refit(0, 120, 0, 4), (Stop{.step = 125, .round = 3, .takes = false, .sets = true}));
  // That of round 2, due at 123, was applied at the old end and is not applied again.
  Schedule late = Make(5, 0, {0, 28});
  late.SetRounds(6);
  EXPECT_EQ(late.Refit(1, 120, 0, 4), (Stop{.step = 153, .round = 3, .takes = false, .sets = true}));
}

TEST(ScheduleTest, ARunThatIsMadeShorterEndsAtOnceWhatIsToBeOverByNow) {
  Schedule schedule = Make(kInnerSteps, 0, {0, 7});
  schedule.SetRounds(2);
  EXPECT_EQ(schedule.Refit(0, 50, 0, 1), (Stop{.step = 60, .round = 1, .takes = true, .sets = true}));
  EXPECT_EQ(schedule.Refit(1, 50, 0, 1), (Stop{.step = 60, .round = 1, .takes = true, .sets = true}));
  // Beyond the new end: the one with an offset has not ended round 1 yet.
  EXPECT_EQ(schedule.Refit(0, 63, 0, 2), std::nullopt);
  EXPECT_EQ(schedule.Refit(1, 63, 0, 1), (Stop{.step = 63, .round = 1, .takes = true, .sets = true}));
  EXPECT_EQ(schedule.Refit(1, 80, 0, 2), std::nullopt);
  // Nothing has changed for whoever is far from it.
  EXPECT_EQ(schedule.Refit(1, 10, 0, 0), schedule.FirstAfter(1, 10, 0));
}

TEST(ScheduleTest, OffsetFragmentsEndLaterButTheLastRoundWithTheRun) {
  const Schedule schedule = Make(kInnerSteps, 0, {0, 7});
  EXPECT_THAT(Stops(schedule, 0), ElementsAre("30:both0", "60:both1", "90:both2", "120:both3"));
  EXPECT_THAT(Stops(schedule, 1), ElementsAre("37:both0", "67:both1", "97:both2", "120:both3"));
}

TEST(ScheduleTest, StreamingSetsBetweenTheEndsOfRounds) {
  const Schedule schedule = Make(5, 0, {0, 7, 28});
  EXPECT_THAT(Stops(schedule, 0),
              ElementsAre("30:take0", "35:set0", "60:take1", "65:set1", "90:take2", "95:set2", "120:take3"));
  EXPECT_THAT(Stops(schedule, 1),
              ElementsAre("37:take0", "42:set0", "67:take1", "72:set1", "97:take2", "102:set2", "120:take3"));
  // 118 + 5 is after the end of the run: the average comes before the last outer gradient, not after it.
  EXPECT_THAT(Stops(schedule, 2),
              ElementsAre("58:take0", "63:set0", "88:take1", "93:set1", "118:take2", "120:set2", "120:take3"));
}

TEST(ScheduleTest, AFragmentIsEnteredAtAnyStep) {
  const Schedule schedule = Make(5, 0, {0, 28});
  for (int fragment = 0; fragment < 2; ++fragment) {
    const std::vector<std::string> all = Stops(schedule, fragment);
    for (int64_t step = 0; step <= schedule.steps(); ++step) {
      std::vector<std::string> expected;
      for (const std::string& stop : all) {
        if (std::stoll(stop) > step) expected.push_back(stop);
      }
      EXPECT_EQ(Stops(schedule, fragment, step), expected) << "after " << step;
    }
  }
}

TEST(ScheduleTest, AJoinerEndsNoRoundBeforeItsFirst) {
  EXPECT_THAT(Stops(Make(kInnerSteps, 0, {7}), 0, 60, 2), ElementsAre("97:both2", "120:both3"));
  EXPECT_THAT(Stops(Make(5, 0, {7}), 0, 60, 2), ElementsAre("72:set1", "97:take2", "102:set2", "120:take3"));
  // Two averages are on their way when it begins; it has no part in the round between them.
  EXPECT_THAT(Stops(Make(5, 0, {28}), 0, 60, 2),
              ElementsAre("63:set0", "93:set1", "118:take2", "120:set2", "120:take3"));
}

TEST(ScheduleTest, BlockingStopNeedsItsOwnAverage) {
  const Schedule schedule = Make(0);
  EXPECT_EQ(schedule.Plan(0, 0).required, 1);
  EXPECT_EQ(schedule.Plan(0, 0).wanted, 1);
  EXPECT_EQ(schedule.Plan(7, 7).required, 8);
  EXPECT_EQ(Make(5).Plan(7, 7).required, 8) << "streaming, at a stop of its own";
}

TEST(ScheduleTest, NothingHasArrivedAtTheFirstOverlappedStop) {
  const Schedule schedule = Make(kInnerSteps);
  EXPECT_EQ(schedule.Plan(0, 0).required, 0);
  EXPECT_EQ(schedule.Plan(0, 0).wanted, 0);
  EXPECT_EQ(schedule.Plan(5, 4).required, 5);
}

TEST(ScheduleTest, MaxLateLowersOnlyWhatIsRequired) {
  const Schedule schedule = Make(kInnerSteps, 2);
  EXPECT_EQ(schedule.Plan(5, 4).wanted, 5);
  EXPECT_EQ(schedule.Plan(5, 4).required, 3);
  EXPECT_EQ(schedule.Plan(1, 0).required, 0);
}

TEST(ScheduleTest, AveragesAreNotAppliedBeforeTheirOverlap) {
  const Schedule schedule = Make(2 * kInnerSteps);
  EXPECT_EQ(schedule.Plan(5, 5).wanted, 4);
  EXPECT_EQ(schedule.Plan(5, 5).required, 4);
}

TEST(ScheduleTest, WorkerWhoseRoundClosedAppliesEverythingAndJumps) {
  const Schedule schedule = Make(kInnerSteps, 1, {0, 7});
  EXPECT_EQ(schedule.Plan(0, 3).wanted, 3);
  EXPECT_EQ(schedule.Resume(30, {3, 3}), 90) << "fragment 0's round 3 starts there, fragment 1's at 97";
  EXPECT_EQ(schedule.Resume(30, {3, 2}), 67) << "fragment 1's round 2";
  EXPECT_EQ(schedule.Resume(30, {1, 1}), 30);
  EXPECT_EQ(schedule.Resume(30, {0, 1}), 30);
  EXPECT_EQ(schedule.Resume(30, {4, 4}), 120);
}

TEST(ScheduleTest, JoinerStartsFromTheAveragesThatItsFirstRoundContains) {
  EXPECT_EQ(Make(0).StartVersion(0, 5), 5);
  EXPECT_EQ(Make(kInnerSteps).StartVersion(0, 5), 4);
  EXPECT_EQ(Make(kInnerSteps).StartVersion(0, 0), 0);
  const Schedule offset = Make(5, 0, {0, 7, 28});
  EXPECT_EQ(offset.StartVersion(0, 3), 2);
  EXPECT_EQ(offset.StartVersion(1, 3), 2);
  EXPECT_EQ(offset.StartVersion(2, 3), 1) << "28 + 5 steps are more than a round";
}

}  // namespace
}  // namespace diloco
