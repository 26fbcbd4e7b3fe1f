// Pause, resume, stop, extend, set: what an operator does to a run, what workers and the disk hear of it, and that a
// coordinator that dies at any moment of it holds to what it has answered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/coordinator/driver/hand_worker.h"
#include "tests/coordinator/driver/sim_cluster.h"

namespace diloco {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kRounds[] = "rounds: {snapshot_every: 2, grace_window: 0s}\n";

v1::SetConfigRequest Settings(const std::vector<std::pair<std::string, std::string>>& settings) {
  v1::SetConfigRequest request;
  for (const auto& [key, value] : settings) {
    v1::Setting* setting = request.add_settings();
    setting->set_key(key);
    setting->set_value(value);
  }
  return request;
}

v1::ExtendRunRequest Length(int64_t rounds) {
  v1::ExtendRunRequest request;
  request.set_rounds(rounds);
  return request;
}

// "outer.rate=0.2 from 3" of each setting, but for the change that says how the run began.
std::vector<std::string> Lines(const google::protobuf::RepeatedPtrField<v1::RunChange>& changes) {
  std::vector<std::string> lines;
  for (const v1::RunChange& change : changes) {
    for (const v1::Setting& setting : change.settings()) {
      lines.push_back(setting.key() + "=" + setting.value() + " from " + std::to_string(change.from_round()));
    }
  }
  return lines;
}

// Two workers, a quorum of both, in round 0 of 8. Blocking: one round is open, so that nobody can be in the next.
class DriverSteeringTest : public ::testing::Test {
 protected:
  DriverSteeringTest()
      : coordinator_(RunYaml(2, 8, "fp32", "fp32", kRounds)),
        east_(&coordinator_, "east", 1),
        west_(&coordinator_, "west", 2) {
    EXPECT_TRUE(coordinator_.Start().ok());
  }

  void Begin() {
    ASSERT_TRUE(east_.Join().ok());
    ASSERT_TRUE(east_.Seed(std::vector<float>(11, 1.0F)).ok());
    ASSERT_TRUE(west_.Join().ok());
  }
  void Restart(const std::string& yaml = RunYaml(2, 8, "fp32", "fp32", kRounds)) {
    coordinator_.Crash();
    coordinator_.SetYaml(yaml);
    const absl::Status started = coordinator_.Start();
    ASSERT_TRUE(started.ok()) << started;
    ASSERT_TRUE(east_.Join().ok());
    ASSERT_TRUE(west_.Join().ok());
  }

  auto Pause() { return coordinator_.Call(&Driver::PauseRun, v1::PauseRunRequest()); }
  auto Resume() { return coordinator_.Call(&Driver::ResumeRun, v1::ResumeRunRequest()); }
  auto Stop() { return coordinator_.Call(&Driver::StopRun, v1::StopRunRequest()); }
  auto Extend(int64_t rounds) { return coordinator_.Call(&Driver::ExtendRun, Length(rounds)); }
  auto Set(const std::vector<std::pair<std::string, std::string>>& settings) {
    return coordinator_.Call(&Driver::SetConfig, Settings(settings));
  }
  v1::GetStatusResponse Status() { return *coordinator_.Call(&Driver::GetStatus, v1::GetStatusRequest()); }
  v1::GetConfigResponse Config() { return *coordinator_.Call(&Driver::GetConfig, v1::GetConfigRequest()); }
  v1::RunSettings ToldToJoiners() {
    return coordinator_.Call(&Driver::DescribeRun, v1::DescribeRunRequest())->settings();
  }

  void Contribute(HandWorker* worker, int64_t round) {
    for (int fragment = 0; fragment < 2; ++fragment) {
      const auto answer = worker->Contribute(fragment, round, 1);
      ASSERT_TRUE(answer.ok()) << answer.status();
      ASSERT_EQ(answer->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
    }
  }
  void DoRound(int64_t round) {
    Contribute(&east_, round);
    Contribute(&west_, round);
  }

  Coordinator coordinator_;
  HandWorker east_;
  HandWorker west_;
};

TEST_F(DriverSteeringTest, PausedNoRoundClosesButWhatHasClosedIsCommitted) {
  Begin();
  const HandWorker::Session session = east_.OpenSession();
  east_.Send(session, east_.Heartbeat());
  const auto first = std::vector<v1::UploadRequest>(east_.Chunks(0, 0, 1));
  Contribute(&west_, 0);
  // The set of fragment 0 is fixed, and its merge has not run.
  for (const v1::UploadRequest& chunk : first) {
    Answer<v1::UploadResponse> answer;
    coordinator_.driver->Upload(chunk, Into(&answer));
    coordinator_.PumpDriver();
  }
  ASSERT_TRUE(coordinator_.pool.RunOne());  // The check of its content.
  coordinator_.PumpDriver();
  Answer<v1::PauseRunResponse> paused;
  coordinator_.driver->PauseRun(v1::PauseRunRequest(), Into(&paused));
  coordinator_.PumpDriver();
  EXPECT_FALSE(paused->has_value()) << "answered before it was durable";
  coordinator_.Pump();
  ASSERT_TRUE((*paused)->ok());
  EXPECT_EQ(coordinator_.observer.committed, 1);

  ASSERT_EQ(east_.Contribute(1, 0, 1)->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
  coordinator_.clock.Advance(absl::Seconds(10));
  coordinator_.Pump();
  EXPECT_EQ(coordinator_.observer.committed, 1);
  EXPECT_EQ(Status().state(), v1::RUN_STATE_PAUSED);
  EXPECT_EQ(Status().reason(), "paused by an operator");
  EXPECT_EQ(session.directives->back().state(), v1::RUN_STATE_PAUSED);
  v1::DescribeRoundRequest round;
  const auto described = coordinator_.Call(&Driver::DescribeRound, round);
  EXPECT_EQ(described->fragments(1).reason(), "all 2 present; once the run goes on");

  ASSERT_TRUE(Pause().ok()) << "again: harmless";
  const auto resumed = Resume();
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->held(), "");
  EXPECT_EQ(coordinator_.observer.committed, 2);
  EXPECT_EQ(Status().state(), v1::RUN_STATE_TRAINING);
  EXPECT_EQ(session.directives->back().state(), v1::RUN_STATE_TRAINING);
  EXPECT_TRUE(Resume().ok());
}

TEST_F(DriverSteeringTest, APauseSurvivesTheCoordinator) {
  Begin();
  ASSERT_TRUE(Pause().ok());
  Restart();
  EXPECT_EQ(Status().state(), v1::RUN_STATE_PAUSED);
  DoRound(0);
  EXPECT_EQ(coordinator_.observer.committed, 0);
  // Also once it is in a snapshot only.
  ASSERT_TRUE(Resume().ok());
  DoRound(1);
  ASSERT_EQ(coordinator_.observer.snapshots.back(), 2);
  ASSERT_TRUE(Pause().ok());
  Restart();
  EXPECT_EQ(Status().state(), v1::RUN_STATE_PAUSED);
}

TEST_F(DriverSteeringTest, LeasesGoOnWhileTheRunIsPaused) {
  Begin();
  ASSERT_TRUE(Pause().ok());
  for (int second = 0; second < 25; ++second) {
    coordinator_.clock.Advance(absl::Seconds(1));
    coordinator_.PumpDriver();
    coordinator_.driver->Subscribe(east_.Signed<v1::SubscribeRequest>(), nullptr, [](const auto&) {});
  }
  coordinator_.Pump();
  EXPECT_THAT(coordinator_.observer.lost, ElementsAre("west"));
  EXPECT_EQ(Status().state(), v1::RUN_STATE_PAUSED);
}

TEST_F(DriverSteeringTest, NothingIsSteeredBeforeAnybodyHasJoinedOrAfterTheEnd) {
  EXPECT_EQ(Pause().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Set({{"outer.rate", "0.2"}}).status().code(), absl::StatusCode::kFailedPrecondition);
  Begin();
  for (int64_t round = 0; round < 8; ++round) DoRound(round);
  ASSERT_EQ(Status().state(), v1::RUN_STATE_ENDED);
  EXPECT_THAT(std::string(Pause().status().message()), HasSubstr("the run has ended with 8 rounds"));
  EXPECT_EQ(Extend(9).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Stop().status().code(), absl::StatusCode::kFailedPrecondition);
  v1::PauseRunRequest other;
  other.set_run_id("other");
  EXPECT_EQ(coordinator_.Call(&Driver::PauseRun, other).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(DriverSteeringTest, AStoppedRunEndsWithItsOldestOpenRound) {
  Begin();
  const auto queue = east_.Subscribe({0, 0});
  DoRound(0);
  Contribute(&east_, 1);
  ASSERT_TRUE(Pause().ok());
  const auto stopped = Stop();
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ(stopped->rounds(), 2);
  EXPECT_EQ(Stop()->rounds(), 2) << "again: harmless";
  EXPECT_EQ(Status().state(), v1::RUN_STATE_TRAINING) << "a stop ends a pause";
  EXPECT_EQ(Status().rounds_total(), 2);
  EXPECT_THAT(std::string(Extend(9).status().message()), HasSubstr("stopped"));
  // What comes for later rounds is in good faith, and the end record's to settle.
  EXPECT_EQ(west_.Contribute(0, 2, 1)->verdict(), v1::CONTRIBUTION_VERDICT_SETTLED);

  Contribute(&west_, 1);
  EXPECT_EQ(Status().state(), v1::RUN_STATE_ENDED);
  EXPECT_EQ(coordinator_.observer.checkpoints.back(), 2);
  bool ended = false;
  const std::vector<v1::SubscribeResponse> messages = Drain(queue->get(), &ended);
  EXPECT_TRUE(ended);
  EXPECT_EQ(messages.back().end().rounds(), 2);

  // A worker that comes back to a coordinator that came back hears the same.
  Restart();
  EXPECT_EQ(Status().state(), v1::RUN_STATE_ENDED);
  const auto again = west_.Subscribe({2, 2});
  ASSERT_TRUE(again.ok()) << again.status();
  const std::vector<v1::SubscribeResponse> after = Drain(again->get(), &ended);
  ASSERT_EQ(after.size(), 2U);
  EXPECT_THAT(Lines(after[0].run_settings().changes()), ::testing::Contains("run.rounds=2 from 2"));
  EXPECT_TRUE(after[1].has_end());
}

TEST_F(DriverSteeringTest, ALengthThatIsExtendedHoldsForTheWholeRun) {
  Begin();
  EXPECT_EQ(Extend(7).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Extend(2'000'000'000).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Extend(8)->from_round(), 0) << "nothing has changed";
  const auto extended = Extend(10);
  ASSERT_TRUE(extended.ok()) << extended.status();
  EXPECT_EQ(extended->rounds(), 10);
  EXPECT_EQ(extended->from_round(), 1);
  EXPECT_EQ(Status().rounds_total(), 10);
  Restart();
  for (int64_t round = 0; round < 10; ++round) DoRound(round);
  EXPECT_EQ(Status().state(), v1::RUN_STATE_ENDED);
  EXPECT_EQ(Status().rounds_committed(), 10);
}

TEST_F(DriverSteeringTest, ARateHoldsFromARoundOnAndIsToldBeforeTheAverageThatLetsAnybodyBeginIt) {
  Begin();
  const auto queue = east_.Subscribe({0, 0});
  bool ended = false;
  ASSERT_TRUE(Drain(queue->get(), &ended).empty());
  const auto set = Set({{"outer.rate", "0.2"}, {"rounds.quorum", "1"}, {"rounds.lease", "30s"}});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(Lines(set->changes()),
              ElementsAre("rounds.quorum=1 from 0", "rounds.lease=30s from 0", "outer.rate=0.2 from 1"));
  EXPECT_TRUE(Set({{"outer.rate", "0.2"}})->changes().empty()) << "it has that value already";

  Contribute(&east_, 0);
  coordinator_.clock.Advance(absl::Milliseconds(1));
  coordinator_.Pump();
  DoRound(1);
  const std::vector<v1::SubscribeResponse> messages = Drain(queue->get(), &ended);
  ASSERT_FALSE(messages.empty());
  EXPECT_TRUE(messages.front().has_run_settings());
  std::vector<float> rates;
  for (const v1::SubscribeResponse& message : messages) {
    if (message.has_commit() && message.commit().fragment() == 0) rates.push_back(message.commit().scalars().rate());
  }
  EXPECT_THAT(rates, ElementsAre(0.4F, 0.2F));
  EXPECT_EQ(Status().quorum(), 1U);
  EXPECT_EQ(west_.Join()->lease().seconds(), 30);

  // Whoever joins hears it too, wherever it looks.
  EXPECT_THAT(Lines(ToldToJoiners().changes()), ::testing::Contains("outer.rate=0.2 from 1"));
  const auto snapshot = coordinator_.Call(&Driver::OpenSnapshot, east_.Signed<v1::FetchSnapshotRequest>());
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_THAT(Lines(snapshot->header.settings().changes()), ::testing::Contains("outer.rate=0.2 from 1"));
  const auto late = west_.Subscribe({2, 2});
  EXPECT_TRUE(Drain(late->get(), &ended).front().has_run_settings());

  const v1::GetConfigResponse config = Config();
  EXPECT_THAT(Lines(config.changes()),
              ElementsAre("rounds.quorum=1 from 0", "rounds.lease=30s from 0", "outer.rate=0.2 from 1"));
  const absl::StatusOr<RunConfig> effective = ParseRunConfig(config.config_yaml(), "effective");
  ASSERT_TRUE(effective.ok()) << effective.status() << config.config_yaml();
  EXPECT_EQ(effective->outer.rate, 0.2);
  EXPECT_EQ(effective->rounds.quorum, 1);
  EXPECT_EQ(effective->rounds.snapshot_every, 2);
}

TEST_F(DriverSteeringTest, WhatMayNotChangeIsRefusedWithOneSentence) {
  Begin();
  const std::vector<std::pair<std::pair<std::string, std::string>, std::string>> refused = {
      {{"wire.uplink", "fp32"}, "may not change in mid-run; what may: outer.rate, inner.rate"},
      {{"outer.rat", "1"}, "may not change in mid-run"},
      {{"run.rounds", "9"}, "`run extend`"},
      {{"outer.rate", "20"}, "outer.rate: \"20\" is out of range; use (0, 10]"},
      {{"outer.rate", "0.1, momentum: 0"}, "is not a value"},
      {{"rounds.quorum", "3"}, "rounds.quorum: 3 is more than run.workers, 2"},
      {{"rounds.lease", "3s"}, "less than 3 times rounds.heartbeat_interval"},
      {{"rounds.grace_cap", "3s"}, "rounds.grace_window is fixed"},
  };
  for (const auto& [setting, what] : refused) {
    const absl::Status status = Set({{"inner.rate", "0.5"}, setting}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << setting.first;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
  }
  EXPECT_EQ(Set({{"outer.rate", "0.1"}, {"outer.rate", "0.2"}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Config().changes().empty()) << "all of them or none";
  EXPECT_EQ(Config().config_yaml(), RunYaml(2, 8, "fp32", "fp32", kRounds)) << "the file itself";
}

TEST_F(DriverSteeringTest, TheNewestWordCountsBeItAFilesOrAnOperators) {
  const std::string file = RunYaml(2, 8, "fp32", "fp32", kRounds);
  const std::string other = RunYaml(2, 8, "fp32", "fp32", std::string(kRounds) + "outer: {rate: 0.3}\n");
  Begin();
  ASSERT_TRUE(Set({{"outer.rate", "0.2"}}).ok());
  const auto rate = [this] { return ParseRunConfig(Config().config_yaml(), "effective")->outer.rate; };
  Restart(file);
  EXPECT_EQ(rate(), 0.2) << "the file says what it said before";
  Restart(other);
  EXPECT_EQ(rate(), 0.3) << "the file says something new";
  Restart(other);
  EXPECT_EQ(rate(), 0.3);
  ASSERT_TRUE(Set({{"outer.rate", "0.1"}}).ok());
  Restart(other);
  EXPECT_EQ(rate(), 0.1);
  // What the change does not hold for has the rate that it had.
  DoRound(0);
  DoRound(1);
  const auto queue = east_.Subscribe({0, 0});
  bool ended = false;
  for (const v1::SubscribeResponse& message : Drain(queue->get(), &ended)) {
    if (!message.has_commit()) continue;
    EXPECT_EQ(message.commit().scalars().rate(), message.commit().round() == 0 ? 0.4F : 0.1F);
  }
}

TEST_F(DriverSteeringTest, AFileThatContradictsWhatWasSetIsRefused) {
  Begin();
  ASSERT_TRUE(Set({{"rounds.lease", "9s"}}).ok());
  coordinator_.Crash();
  coordinator_.SetYaml(
      RunYaml(2, 8, "fp32", "fp32", "rounds: {snapshot_every: 2, grace_window: 0s, heartbeat_interval: 5s}\n"));
  const absl::Status status = coordinator_.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rounds.lease: 9s is less than 3 times"));
}

TEST_F(DriverSteeringTest, ChangesAreBounded) {
  Begin();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(Set({{"eval.every", std::to_string(1 + i)}}).ok()) << i;
  }
  EXPECT_LE(ToldToJoiners().changes_size(), kMaxRunChanges);
  EXPECT_EQ(ParseRunConfig(Config().config_yaml(), "effective")->eval.every, 100);
  // While the run stands still, a new value takes the place of the one before, and what frees the run is taken.
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(Set({{"outer.rate", i % 2 == 0 ? "0.1" : "0.2"}}).ok()) << i;
  }
  EXPECT_THAT(Lines(Config().changes()), ElementsAre("eval.every=100 from 0", "outer.rate=0.2 from 1"));
  EXPECT_TRUE(Set({{"rounds.quorum", "1"}}).ok());
  EXPECT_TRUE(Stop().ok());
}

// A change for each round: the older ones become how the run began.
TEST_F(DriverSteeringTest, ChangesOfManyRoundsAreBounded) {
  Begin();
  ASSERT_TRUE(Extend(200).ok());
  for (int round = 0; round < 100; ++round) {
    ASSERT_TRUE(Set({{"outer.rate", std::to_string(round + 1) + "e-3"}}).ok()) << round;
    DoRound(round);
  }
  const v1::RunSettings told = ToldToJoiners();
  EXPECT_EQ(told.changes_size(), kMaxRunChanges);
  EXPECT_EQ(told.changes(kMaxRunChanges - 1).from_round(), 100);
}

TEST_F(DriverSteeringTest, WhatIsNotDurableIsNotShown) {
  Begin();
  Answer<v1::SetConfigResponse> set;
  coordinator_.driver->SetConfig(Settings({{"outer.rate", "0.125"}}), Into(&set));
  coordinator_.PumpDriver();
  ASSERT_FALSE(set->has_value());
  Answer<v1::GetConfigResponse> config;
  coordinator_.driver->GetConfig(v1::GetConfigRequest(), Into(&config));
  coordinator_.PumpDriver();
  ASSERT_TRUE(config->has_value());
  ASSERT_FALSE(set->has_value());
  EXPECT_THAT((*config)->value().config_yaml(), Not(HasSubstr("0.125")));
  coordinator_.Pump();
  ASSERT_TRUE(set->has_value());
  EXPECT_THAT(Config().config_yaml(), HasSubstr("0.125"));
}

// The coordinator has answered, and not that it is going.
template <typename Response>
bool WasDone(const Answer<Response>& answer) {
  return answer->has_value() && !absl::IsUnavailable((*answer)->status());
}

// At every step after the operator's word the coordinator dies, and comes back. What was answered holds; a run whose
// operator was not answered is one of the two.
TEST(DriverSteeringCrashTest, WhatWasAnsweredHoldsWheneverTheCoordinatorDies) {
  const std::string yaml = RunYaml(2, 5, "fp32", "fp32", "rounds: {snapshot_every: 2, lease: 24h}\n");
  bool answered_late = false;
  for (int after = 0; after < 60; ++after) {
    SCOPED_TRACE(after);
    SimCluster cluster(yaml, 2);
    cluster.Start();
    cluster.Run(25);
    Answer<v1::SetConfigResponse> set;
    Answer<v1::ExtendRunResponse> extended;
    cluster.coordinator.driver->SetConfig(Settings({{"outer.rate", "0.125"}}), Into(&set));
    cluster.coordinator.driver->ExtendRun(Length(7), Into(&extended));
    cluster.Run(after);
    cluster.Crash();
    cluster.Start();
    cluster.Run();
    answered_late = answered_late || !WasDone(set);
    const SimWorker& any = *cluster.workers[0];
    ASSERT_TRUE(any.end().has_value());
    EXPECT_TRUE(any.end()->rounds() == 7 || !WasDone(extended)) << any.end()->rounds();
    EXPECT_EQ(any.end()->rounds(), any.rounds());
    std::optional<int64_t> from;
    for (const v1::GlobalDeltaCommit& commit : any.commits()) {
      const bool changed = commit.scalars().rate() == 0.125F;
      if (changed) from = std::min(from.value_or(commit.round()), commit.round());
      EXPECT_TRUE(changed || !from || commit.round() < *from) << commit.round();
    }
    if (WasDone(set)) {
      ASSERT_TRUE((*set)->ok()) << (*set)->status();
      EXPECT_EQ(from, (**set)->changes(0).from_round());
    }
    for (const auto& worker : cluster.workers) {
      EXPECT_TRUE(worker->done());
      for (const auto& [key, count] : worker->merged()) EXPECT_EQ(count, 1);
    }
    if (HasFailure()) return;
  }
  EXPECT_TRUE(answered_late) << "no crash came before the answer";
}

TEST(DriverSteeringCrashTest, AStoppedRunEndsTheSameWheneverTheCoordinatorDies) {
  const std::string yaml = RunYaml(2, 50, "fp32", "fp32", "rounds: {snapshot_every: 2, lease: 24h}\n");
  for (int after = 0; after < 60; ++after) {
    SCOPED_TRACE(after);
    SimCluster cluster(yaml, 2);
    cluster.Start();
    cluster.Run(25);
    Answer<v1::StopRunResponse> stopped;
    cluster.coordinator.driver->StopRun(v1::StopRunRequest(), Into(&stopped));
    cluster.Run(after);
    cluster.Crash();
    cluster.Start();
    if (!WasDone(stopped)) {  // As an operator would, who was not answered.
      cluster.coordinator.driver->StopRun(v1::StopRunRequest(), Into(&stopped));
    }
    cluster.Run();
    ASSERT_TRUE(stopped->has_value());
    ASSERT_TRUE((*stopped)->ok()) << (*stopped)->status();
    for (const auto& worker : cluster.workers) {
      EXPECT_TRUE(worker->done());
      ASSERT_TRUE(worker->end().has_value());
      EXPECT_EQ(worker->end()->rounds(), (**stopped)->rounds());
      for (const auto& [key, count] : worker->merged()) EXPECT_EQ(count, 1);
    }
    EXPECT_TRUE(cluster.coordinator.observer.finished);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace diloco
