#include "coordinator/app/run_observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>
#include <spdlog/spdlog.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"

#include "common/log/log.h"

namespace diloco {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

class RunObserverTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(InitLog({}).ok()); }
  std::string Scrape() const { return prometheus::TextSerializer().Serialize(registry_.Collect()); }

  prometheus::Registry registry_;
  CoordinatorMetrics metrics_{registry_, kCoordinatorLabels};
  absl::Status fatal_;
  int finished_ = 0;
  const SteadyClock clock_;
  RunHistory history_;
  EventLog events_{7, &clock_};
  RunObserver observer_{
      &metrics_,
      &history_,
      &events_,
      nullptr,
      {.fatal = [this](const absl::Status& status) { fatal_ = status; }, .finished = [this] { ++finished_; }}};
};

TEST_F(RunObserverTest, ExactlyOnePhaseIsSet) {
  observer_.OnPhase(RunPhase::kSeeding);
  observer_.OnPhase(RunPhase::kTraining);
  const std::string scrape = Scrape();
  EXPECT_THAT(scrape, HasSubstr("diloco_run_phase{phase=\"seeding\"} 0"));
  EXPECT_THAT(scrape, HasSubstr("diloco_run_phase{phase=\"training\"} 1"));
  EXPECT_THAT(scrape, HasSubstr("diloco_run_phase{phase=\"ended\"} 0"));
}

TEST_F(RunObserverTest, AHeldRunIsInNoOtherPhaseUntilItIsReleased) {
  observer_.OnPhase(RunPhase::kTraining);
  observer_.OnDiskRefused(DiskUser::kJournal, "the disk is full");
  CaptureStderr();
  observer_.OnHold(HoldCause::kDisk, "the disk is full");
  observer_.OnHold(HoldCause::kDisk, "the disk is full; again");
  spdlog::default_logger()->flush();
  const std::string log = GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("event=holding reason=\"the disk is full\""));
  EXPECT_THAT(log, Not(HasSubstr("again")));
  EXPECT_EQ(observer_.amiss(), "holding: the disk is full; again");
  EXPECT_THAT(Scrape(), HasSubstr("diloco_run_phase{phase=\"holding\"} 1"));
  EXPECT_THAT(Scrape(), HasSubstr("diloco_run_phase{phase=\"training\"} 0"));
  EXPECT_THAT(Scrape(), HasSubstr("diloco_disk_refusals_total{what=\"journal\"} 1"));
  EXPECT_THAT(Scrape(), HasSubstr("diloco_disk_refusals_total{what=\"snapshot\"} 0"));
  EXPECT_THAT(Scrape(), HasSubstr("diloco_run_held{cause=\"disk\"} 1"));
  EXPECT_THAT(Scrape(), HasSubstr("diloco_run_held{cause=\"folder_behind\"} 0"));
  observer_.OnHold(HoldCause::kDisk, "");
  EXPECT_THAT(Scrape(), HasSubstr("diloco_run_held{cause=\"disk\"} 0"));
  EXPECT_EQ(observer_.amiss(), "");
  EXPECT_THAT(Scrape(), HasSubstr("diloco_run_phase{phase=\"holding\"} 0"));
  EXPECT_THAT(Scrape(), HasSubstr("diloco_run_phase{phase=\"training\"} 1"));
}

TEST_F(RunObserverTest, APausedRunIsPausedUntilItEndsAndAHoldComesBeforeIt) {
  observer_.OnPhase(RunPhase::kTraining);
  observer_.OnRunPaused();
  EXPECT_EQ(observer_.amiss(), "paused by an operator");
  EXPECT_THAT(Scrape(), HasSubstr("diloco_run_phase{phase=\"paused\"} 1"));
  EXPECT_THAT(Scrape(), HasSubstr("diloco_run_phase{phase=\"training\"} 0"));
  observer_.OnHold(HoldCause::kDisk, "the disk is full");
  EXPECT_EQ(observer_.amiss(), "holding: the disk is full");
  EXPECT_THAT(Scrape(), HasSubstr("diloco_run_phase{phase=\"holding\"} 1"));
  EXPECT_THAT(Scrape(), HasSubstr("diloco_run_phase{phase=\"paused\"} 0"));
  observer_.OnHold(HoldCause::kDisk, "");
  EXPECT_THAT(Scrape(), HasSubstr("diloco_run_phase{phase=\"paused\"} 1"));
  observer_.OnRunResumed();
  EXPECT_EQ(observer_.amiss(), "");
  EXPECT_THAT(Scrape(), HasSubstr("diloco_run_phase{phase=\"training\"} 1"));
}

TEST_F(RunObserverTest, TellsWhatHappensAsNumberedEvents) {
  v1::RoundSummary round;
  round.set_round(4);
  round.set_reason("all 2 present");
  v1::Evaluation evaluation;
  evaluation.set_version(3);
  evaluation.set_loss(1.5);
  observer_.OnWorkerJoined("east", false);
  observer_.OnWorkerLost("east");
  observer_.OnRoundCommitted(round);
  observer_.OnHold(HoldCause::kDisk, "the disk is full");
  observer_.OnHold(HoldCause::kDisk, "the disk is full; again");
  observer_.OnHold(HoldCause::kDisk, "");
  observer_.OnRunPaused();
  observer_.OnRunResumed();
  observer_.OnRunChanged({{.from_round = 6, .settings = {{"outer.rate", "0.2"}}}});
  observer_.OnRunStopped(9);
  observer_.OnSnapshot(8, absl::Seconds(1), 100);
  observer_.OnCheckpoint(9, "/data/checkpoints/9", absl::Seconds(1));
  observer_.OnEvaluation(evaluation);
  observer_.OnPhase(RunPhase::kEnded);
  std::vector<std::string> lines;
  uint64_t number = 0;
  while (const std::optional<EventLog::Reading> reading = events_.Next(number)) {
    const v1::Event& event = *reading->event;
    EXPECT_EQ(event.number(), ++number);
    lines.push_back(v1::EventKind_Name(event.kind()).substr(11) + ": " + event.text());
  }
  EXPECT_THAT(lines,
              testing::ElementsAre(
                  "WORKER_JOINED: it joined", "WORKER_LOST: its lease ended without a word from it",
                  "ROUND_COMMITTED: all 2 present", "HOLD_BEGAN: the disk is full",
                  "HOLD_ENDED: the run is not held any more", "RUN_PAUSED: paused by an operator",
                  "RUN_RESUMED: an operator lets the run go on", "RUN_CHANGED: outer.rate=0.2 from round 6 on",
                  "RUN_STOPPED: an operator stopped the run: it ends with 9 rounds",
                  "SNAPSHOT: a snapshot of version 8 is durable", "CHECKPOINT: /data/checkpoints/9",
                  "EVALUATION: held-out loss 1.5000 nats a token at version 3", "RUN_ENDED: every round is committed"));
  EXPECT_EQ(events_.Next(1)->event->worker_id(), "east");
  EXPECT_EQ(events_.Next(2)->event->round().round(), 4);
  ASSERT_EQ(events_.Next(7)->event->changes_size(), 1);
  EXPECT_EQ(events_.Next(7)->event->changes(0).from_round(), 6);
}

TEST_F(RunObserverTest, CountsMembersByState) {
  observer_.OnWorkerJoined("east", false);
  observer_.OnWorkerJoined("west", false);
  observer_.OnWorkerJoined("west", true);
  observer_.OnWorkerLost("west");
  observer_.OnMembers(
      {.alive = 3, .draining = 4, .suspended = 5, .lost = 2, .left = 1, .evicted = 6, .participating = 7});
  EXPECT_THAT(
      Scrape(),
      AllOf(HasSubstr("diloco_workers{state=\"alive\"} 3\n"), HasSubstr("diloco_workers{state=\"draining\"} 4\n"),
            HasSubstr("diloco_workers{state=\"suspended\"} 5\n"), HasSubstr("diloco_workers{state=\"lost\"} 2\n"),
            HasSubstr("diloco_workers{state=\"left\"} 1\n"), HasSubstr("diloco_workers{state=\"evicted\"} 6\n"),
            HasSubstr("diloco_workers_participating 7\n")));
  observer_.OnProgress("west", {});
  observer_.OnWorkerLeft("west");
  EXPECT_EQ(metrics_.joins_new.Value(), 2);
  EXPECT_EQ(metrics_.joins_returning.Value(), 1);
  EXPECT_EQ(metrics_.worker_losses.Value(), 1);
  EXPECT_THAT(Scrape(), Not(HasSubstr("worker=\"west\"")));
}

TEST_F(RunObserverTest, AnEvictedWorkersSeriesGo) {
  observer_.OnProgress("east", {});
  observer_.OnProgress("west", {});
  observer_.OnWorkerEvicted("west", 2);
  EXPECT_THAT(Scrape(), AllOf(Not(HasSubstr("worker=\"west\"")), HasSubstr("worker=\"east\"")));
}

TEST_F(RunObserverTest, EveryVerdictHasItsSeries) {
  const ContributionId id = {.worker = "east", .fragment = 0, .round = 3};
  observer_.OnContribution(id, Verdict::kStored, "");
  observer_.OnContribution(id, Verdict::kStored, "");
  observer_.OnContribution(id, Verdict::kSettled, "");
  observer_.OnContribution(id, Verdict::kTooEarly, "");
  CaptureStderr();
  observer_.OnContribution(id, Verdict::kRefused, "not finite\nat 3");
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("level=warning event=contribution verdict=refused worker=east fragment=0 "
                                             "round=3 reason=\"not finite\\nat 3\"\n"));
  const std::string scrape = Scrape();
  EXPECT_THAT(scrape, HasSubstr("diloco_contributions_total{verdict=\"stored\"} 2"));
  EXPECT_THAT(scrape, HasSubstr("diloco_contributions_total{verdict=\"settled\"} 1"));
  EXPECT_THAT(scrape, HasSubstr("diloco_contributions_total{verdict=\"refused\"} 1"));
  EXPECT_THAT(scrape, HasSubstr("diloco_contributions_total{verdict=\"too_early\"} 1"));
}

TEST_F(RunObserverTest, CommitsCountAndTheNewestRoundNeverFalls) {
  observer_.OnCommitted(0, 5, absl::Seconds(2), 3, 1, "all present");
  observer_.OnCommitted(1, 4, absl::Seconds(2), 2, 0, "all present");
  EXPECT_EQ(metrics_.round_newest_committed.Value(), 5);
  EXPECT_EQ(metrics_.fragment_rounds.Value(), 2);
  EXPECT_THAT(Scrape(), HasSubstr("diloco_round_duration_seconds_sum 4"));
}

TEST_F(RunObserverTest, EveryOutcomeOfAContributionHasItsSeries) {
  observer_.OnSettled(v1::SETTLEMENT_MERGED, false);
  observer_.OnSettled(v1::SETTLEMENT_MERGED, false);
  observer_.OnSettled(v1::SETTLEMENT_MERGED, true);
  observer_.OnSettled(v1::SETTLEMENT_DROPPED_LATE, true);
  observer_.OnSettled(v1::SETTLEMENT_DROPPED_EVICTED, false);
  EXPECT_THAT(Scrape(), AllOf(HasSubstr("diloco_contributions_settled_total{outcome=\"merged\"} 2\n"),
                              HasSubstr("diloco_contributions_settled_total{outcome=\"merged_late\"} 1\n"),
                              HasSubstr("diloco_contributions_settled_total{outcome=\"dropped_late\"} 1\n"),
                              HasSubstr("diloco_contributions_settled_total{outcome=\"dropped_refused\"} 0\n"),
                              HasSubstr("diloco_contributions_settled_total{outcome=\"dropped_out_of_order\"} 0\n"),
                              HasSubstr("diloco_contributions_settled_total{outcome=\"dropped_run_ended\"} 0\n"),
                              HasSubstr("diloco_contributions_settled_total{outcome=\"dropped_evicted\"} 1\n")));
}

TEST_F(RunObserverTest, TheOldestOpenRoundIsShownWithItsQuorumUntilNoneIsOpen) {
  EXPECT_EQ(metrics_.round_oldest_open.Value(), -1);
  observer_.OnOldestRound(OldestRound{
      .round = 7, .open_for = absl::Seconds(30), .quorum = 3, .present = 2, .grace_window = absl::Milliseconds(1500)});
  EXPECT_EQ(metrics_.round_oldest_open.Value(), 7);
  EXPECT_EQ(metrics_.round_quorum_workers.Value(), 3);
  EXPECT_EQ(metrics_.round_present_workers.Value(), 2);
  EXPECT_EQ(metrics_.round_grace_window_seconds.Value(), 1.5);
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  EXPECT_LE(metrics_.round_oldest_opened_timestamp_seconds.Value(), now - 30);
  EXPECT_GT(metrics_.round_oldest_opened_timestamp_seconds.Value(), now - 1000);
  observer_.OnOldestRound(std::nullopt);
  EXPECT_EQ(metrics_.round_oldest_open.Value(), -1);
  EXPECT_EQ(metrics_.round_oldest_opened_timestamp_seconds.Value(), 0);
  EXPECT_EQ(metrics_.round_quorum_workers.Value(), 0);
}

TEST_F(RunObserverTest, AFreshProcessShowsWhatItsFolderHad) {
  observer_.OnRecovered(40, 1234, 43);
  EXPECT_EQ(metrics_.snapshot_version.Value(), 40);
  EXPECT_EQ(metrics_.snapshot_bytes.Value(), 1234);
  EXPECT_EQ(metrics_.round_newest_committed.Value(), 43);
  observer_.OnCommitted(0, 42, absl::Seconds(1), 1, 0, "all present");
  EXPECT_EQ(metrics_.round_newest_committed.Value(), 43);
}

TEST_F(RunObserverTest, CheckpointsAndJournalAreTimedAndFailuresCounted) {
  observer_.OnCheckpoint(5, "/data/checkpoints/round-00000005", absl::Seconds(3));
  observer_.OnCheckpointFailed(absl::ResourceExhaustedError("no space"));
  observer_.OnJournaled(absl::Seconds(2));
  observer_.OnJournalSize(8192);
  EXPECT_THAT(Scrape(), AllOf(HasSubstr("diloco_checkpoints_total{outcome=\"written\"} 1\n"),
                              HasSubstr("diloco_checkpoints_total{outcome=\"failed\"} 1\n"),
                              HasSubstr("diloco_checkpoint_write_duration_seconds_sum 3\n"),
                              HasSubstr("diloco_journal_write_duration_seconds_sum 2\n"),
                              HasSubstr("diloco_journal_bytes 8192\n")));
  EXPECT_GT(metrics_.checkpoint_last_success_timestamp_seconds.Value(), 0);
}

TEST_F(RunObserverTest, TheNormOfAFragmentBeyondTheBoundIsNotShown) {
  observer_.OnMerged(kMaxFragmentSeries - 1, 0, absl::Seconds(1), 2.5);
  observer_.OnMerged(kMaxFragmentSeries, 0, absl::Seconds(1), 3.5);
  EXPECT_THAT(Scrape(), HasSubstr("diloco_average_norm{fragment=\"63\"} 2.5\n"));
  EXPECT_THAT(Scrape(), Not(HasSubstr("fragment=\"64\"")));
}

TEST_F(RunObserverTest, SettingsOfTheRunAreShown) {
  const absl::StatusOr<RunConfig> config = ParseRunConfig(
      "run: {id: seen, workers: 3, rounds: 70}\nmethod: eager\ninner_steps: 30\noverlap: 60\n"
      "rounds: {snapshot_every: 5}\nwire: {uplink: fp32, downlink: int8}\n",
      "test");
  ASSERT_TRUE(config.ok()) << config.status();
  ShowSettings(*config, &metrics_);
  EXPECT_EQ(metrics_.run_rounds.Value(), 70);
  EXPECT_EQ(metrics_.run_inner_steps.Value(), 30);
  EXPECT_EQ(metrics_.run_overlap_rounds.Value(), 2);
  EXPECT_EQ(metrics_.run_snapshot_every_rounds.Value(), 5);
  EXPECT_EQ(metrics_.workers_expected.Value(), 3);
  EXPECT_THAT(
      Scrape(),
      AllOf(HasSubstr("diloco_run_info{method=\"eager\",outer_optimizer=\"nesterov\"} 1\n"),
            HasSubstr("diloco_codec_compression_ratio{codec=\"fp32\",direction=\"up\"} 1\n"),
            testing::ContainsRegex("diloco_codec_compression_ratio\\{codec=\"int8\",direction=\"down\"\\} 3\\.[89]")));
}

TEST_F(RunObserverTest, PublishedBytesAreWhatAllSubscribersAreSent) {
  observer_.OnPublished(100, 3);
  EXPECT_EQ(metrics_.published_bytes.Value(), 300);
  EXPECT_EQ(metrics_.subscribers.Value(), 3);
}

TEST_F(RunObserverTest, HandsOnWhatEndsTheProcess) {
  observer_.OnRunFinished();
  EXPECT_EQ(finished_, 1);
  CaptureStderr();
  observer_.OnFatal(absl::DataLossError("disk"));
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("level=error event=fatal"));
  EXPECT_EQ(fatal_, absl::DataLossError("disk"));
}

}  // namespace
}  // namespace diloco
