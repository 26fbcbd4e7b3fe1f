// What scenario files do not show: bad input, options, and the views as data.
#include "coordinator/round/round_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "common/base/limits.h"

namespace diloco {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

MonotonicTime At(int64_t seconds) { return MonotonicTime{} + absl::Seconds(seconds); }

RoundOptions Options() {
  RoundOptions options;
  options.workers = 2;
  options.quorum = 2;
  options.grace_window = absl::Seconds(10);
  options.lease = absl::Seconds(60);
  options.rounds = 5;
  options.open_rounds = 2;
  options.fragments = 2;
  options.max_members = 3;
  return options;
}

RecoveredRounds Recovered() {
  RecoveredRounds recovered;
  recovered.seeded = true;
  recovered.next_round = {3, 2};
  recovered.members = {{.worker = "west", .incarnation = 7, .first_round = 0, .left = false, .settled_rounds = {2, 1}},
                       {.worker = "east", .incarnation = 8, .first_round = 1, .left = true, .settled_rounds = {-1, 0}}};
  return recovered;
}

TEST(RoundOptionsTest, FollowTheConfiguration) {
  RunConfig config;
  config.run.workers = 4;
  config.run.rounds = 77;
  config.inner_steps = 30;
  config.overlap = 60;
  config.max_late = 1;
  config.rounds.quorum = 3;
  config.rounds.grace_window = absl::Seconds(11);
  config.rounds.lease = absl::Seconds(22);
  config.rounds.late = LatePolicy::kDrop;

  const RoundOptions options = RoundOptions::From(config, /*fragments=*/5);

  EXPECT_EQ(options.workers, 4);
  EXPECT_EQ(options.quorum, 3);
  EXPECT_EQ(options.grace_window, absl::Seconds(11));
  EXPECT_EQ(options.lease, absl::Seconds(22));
  EXPECT_EQ(options.late, LatePolicy::kDrop);
  EXPECT_EQ(options.rounds, 77);
  EXPECT_EQ(options.open_rounds, 2 + 1 + 1);
  EXPECT_EQ(options.fragments, 5);
  EXPECT_EQ(options.max_members, kMaxWorkers);
}

TEST(RoundOptionsTest, FollowTheRuleThatClosesRounds) {
  RunConfig config;
  config.run.workers = config.rounds.quorum = 2;
  EXPECT_FALSE(RoundOptions::From(config, 1).adaptive_grace.has_value());
  EXPECT_FALSE(RoundOptions::From(config, 1).timeout.has_value());
  config.rounds.grace_window.reset();
  config.rounds.grace_floor = absl::Seconds(3);
  config.rounds.grace_cap = absl::Seconds(44);
  config.rounds.timeout = absl::Minutes(5);
  const RoundOptions options = RoundOptions::From(config, 1);
  EXPECT_EQ(options.adaptive_grace->floor, absl::Seconds(3));
  EXPECT_EQ(options.adaptive_grace->cap, absl::Seconds(44));
  EXPECT_EQ(options.timeout, absl::Minutes(5));
}

TEST(RoundMachineRestoreTest, TakesUpWhatWasDurable) {
  const absl::StatusOr<RoundMachine> machine = RoundMachine::Restore(Options(), Recovered(), At(100));
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(machine->phase(), RunPhase::kTraining);
  EXPECT_EQ(machine->NextRound(0), 3);
  EXPECT_EQ(machine->NextRound(1), 2);
  EXPECT_EQ(machine->OldestOpenRound(), 2);
  EXPECT_EQ(machine->SettledRound("west", 0), 2);
  EXPECT_EQ(machine->SettledRound("east", 1), 0);
  EXPECT_EQ(machine->SettledRound("nobody", 1), -1);
  EXPECT_TRUE(machine->IsMember("west", 7));
  EXPECT_FALSE(machine->IsMember("west", 8));
  EXPECT_FALSE(machine->IsMember("east", 8)) << "it left for good";
  EXPECT_EQ(machine->NextDeadline(), At(160)) << "a fresh lease";
}

TEST(RoundMachineRestoreTest, RefusesWhatDoesNotFitTheRun) {
  struct Case {
    std::function<void(RecoveredRounds&)> damage;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](RecoveredRounds& r) { r.next_round = {1}; }, "rounds of 1 fragments, and the run has 2"},
      {[](RecoveredRounds& r) { r.next_round[1] = -1; }, "recovered -1 rounds of 5"},
      {[](RecoveredRounds& r) { r.next_round[0] = 6; }, "recovered 6 rounds of 5"},
      {[](RecoveredRounds& r) { r.seeded = false; }, "not seeded"},
      {[](RecoveredRounds& r) { r.ended = true; }, "has ended"},
      {[](RecoveredRounds& r) { r.members[1].worker = "west"; }, "recovered worker \"west\" twice"},
      {[](RecoveredRounds& r) { r.members[0].settled_rounds = {1}; }, "1 settled rounds of worker \"west\""},
      {[](RecoveredRounds& r) { r.members[0].settled_rounds[0] = 3; }, "fragment 0 has committed 3 rounds"},
      {[](RecoveredRounds& r) { r.members[1].settled_rounds[1] = -2; }, "settled round -2 of worker \"east\""},
      {[](RecoveredRounds& r) {
         for (const char* worker : {"eu", "us"}) {
           r.members.push_back(
               {.worker = worker, .incarnation = 1, .first_round = 0, .left = false, .settled_rounds = {-1, -1}});
         }
       },
       "recovered 4 members, more than 3"},
  };
  for (const Case& c : cases) {
    RecoveredRounds recovered = Recovered();
    c.damage(recovered);
    const absl::StatusOr<RoundMachine> machine = RoundMachine::Restore(Options(), recovered, At(0));
    EXPECT_EQ(machine.status().code(), absl::StatusCode::kInvalidArgument) << c.message;
    EXPECT_THAT(std::string(machine.status().message()), HasSubstr(c.message));
  }
}

TEST(RoundMachineRestoreTest, WaitsForWorkersUnlessTheRunHadStarted) {
  RecoveredRounds recovered;
  recovered.seeded = true;
  recovered.next_round = {0, 0};
  recovered.members = {
      {.worker = "west", .incarnation = 7, .first_round = 0, .left = false, .settled_rounds = {-1, -1}}};
  EXPECT_EQ(RoundMachine::Restore(Options(), recovered, At(0))->phase(), RunPhase::kWaitingForWorkers);
  recovered.members.push_back(
      {.worker = "east", .incarnation = 8, .first_round = 0, .left = false, .settled_rounds = {-1, -1}});
  EXPECT_EQ(RoundMachine::Restore(Options(), recovered, At(0))->phase(), RunPhase::kTraining);
  recovered.seeded = false;
  EXPECT_EQ(RoundMachine::Restore(Options(), recovered, At(0))->phase(), RunPhase::kSeeding);
}

TEST(RoundMachineViewsTest, ShowEveryOpenRound) {
  RoundMachine machine(Options());
  EXPECT_THAT(machine.OpenRounds(0, At(0)), IsEmpty());
  machine.Step(WorkerJoined{"west", 1}, At(0));
  machine.Step(WorkerJoined{"east", 1}, At(1));
  machine.Step(RunSeeded{}, At(2));
  machine.Step(ContributionStored{{"west", 1, 0}, 1, {0, 5}, 2.0}, At(3));
  WorkerAbstained abstention;
  abstention.id = {"east", 1, 1};
  abstention.incarnation = 1;
  machine.Step(abstention, At(4));

  std::vector<RoundView> open = machine.OpenRounds(1, At(5));
  ASSERT_EQ(open.size(), 2u);
  EXPECT_EQ(open[0].fragment, 1);
  EXPECT_EQ(open[0].round, 0);
  EXPECT_EQ(open[0].phase, RoundPhase::kCollecting);
  EXPECT_EQ(open[0].opened, At(2));
  EXPECT_THAT(open[0].present, ElementsAre("west"));
  EXPECT_THAT(open[0].awaited, ElementsAre("east"));
  EXPECT_THAT(open[0].abstained, IsEmpty());
  EXPECT_THAT(open[0].settled, IsEmpty());
  EXPECT_EQ(open[1].round, 1);
  EXPECT_THAT(open[1].awaited, ElementsAre("west"));
  EXPECT_THAT(open[1].abstained, ElementsAre("east"));

  machine.Step(ContributionStored{{"east", 1, 0}, 1, {0, 6}, 1.0}, At(6));
  open = machine.OpenRounds(1, At(7));
  EXPECT_EQ(open[0].phase, RoundPhase::kMerging);
  EXPECT_EQ(open[0].reason, "all 2 present");
  EXPECT_THAT(open[0].settled, ElementsAre(Settled{{"east", 1, 0}, {0, 6}, Settlement::kMerged, 1.0},
                                           Settled{{"west", 1, 0}, {0, 5}, Settlement::kMerged, 2.0}));
  machine.Step(MergeFinished{1, 0}, At(8));
  EXPECT_EQ(machine.OpenRounds(1, At(8))[0].phase, RoundPhase::kCommitting);
  machine.Step(CommitPersisted{1, 0}, At(9));
  open = machine.OpenRounds(1, At(9));
  ASSERT_EQ(open.size(), 2u);
  EXPECT_EQ(open[0].round, 1);
  EXPECT_EQ(open[0].opened, At(2));
  EXPECT_EQ(open[1].opened, At(9));
}

TEST(RoundMachineHoldTest, OnlyLeasesAreDue) {
  RoundOptions options = Options();
  options.quorum = 1;
  RoundMachine machine(options);
  machine.Step(WorkerJoined{"west", 1}, At(0));
  machine.Step(WorkerJoined{"east", 1}, At(0));
  machine.Step(RunSeeded{}, At(0));
  machine.Step(ContributionStored{{"west", 1, 0}, 1, {0, 5}, 1.0}, At(0));
  EXPECT_EQ(machine.NextDeadline(), At(10)) << "the grace window";
  machine.Hold(HeldBy::kLostDisk);
  EXPECT_EQ(machine.NextDeadline(), At(60)) << "the leases";
  EXPECT_THAT(machine.Step(TimePassed{}, At(11)), IsEmpty());
  EXPECT_EQ(machine.NextDeadline(), At(60));
}

TEST(RoundMachineDeathTest, CompletionsThatWereNotAskedForAreProgrammerErrors) {
  RoundMachine machine(Options());
  EXPECT_DEATH(machine.Step(MergeFinished{0, 0}, At(0)), "check failed");
  EXPECT_DEATH(machine.Step(CommitPersisted{0, 0}, At(0)), "check failed");
  EXPECT_DEATH(machine.Step(EndPersisted{}, At(0)), "check failed");
}

}  // namespace
}  // namespace diloco
