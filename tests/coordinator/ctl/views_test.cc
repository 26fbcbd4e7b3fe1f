#include "coordinator/ctl/views.h"

#include <gtest/gtest.h>

#include <string>

namespace diloco {
namespace {

v1::GetStatusResponse Training() {
  v1::GetStatusResponse status;
  status.set_run_id("demo");
  status.set_state(v1::RUN_STATE_TRAINING);
  status.set_reason("round 12 of fragment 0: need 1 more of 2");
  status.set_method("eager");
  status.set_rounds_committed(12);
  status.set_rounds_total(40);
  status.set_workers_alive(2);
  status.set_workers_participating(2);
  status.set_workers_expected(2);
  status.set_quorum(2);
  status.set_parameters(834'560);
  status.set_fragments(8);
  status.mutable_uptime()->set_seconds(185);
  status.set_received_bytes(12'345'678);
  status.set_sent_bytes(999);
  status.set_software_version("0.1.0");
  status.set_snapshot_version(10);
  status.set_checkpoint_path("/data/checkpoints/10");
  v1::Evaluation* evaluation = status.add_evaluations();
  evaluation->set_version(10);
  evaluation->set_loss(2.34564);
  return status;
}

TEST(StatusViewTest, ShowsTheRun) {
  EXPECT_EQ(StatusText(Training()),
            "run            demo\n"
            "state          training: round 12 of fragment 0: need 1 more of 2\n"
            "method         eager\n"
            "rounds         12 of 40 committed\n"
            "workers        2 alive, 2 participating, 2 expected, 2 needed for a round\n"
            "model          834560 parameters in 8 fragments\n"
            "held-out loss  2.3456 nats a token at version 10\n"
            "traffic        12.3 MB received, 999 B sent\n"
            "snapshot       version 10\n"
            "checkpoint     /data/checkpoints/10\n"
            "coordinator    0.1.0, up 3m05s\n");
}

TEST(StatusViewTest, ShowsARunThatHasNothingYet) {
  v1::GetStatusResponse status;
  status.set_run_id("demo");
  status.set_state(v1::RUN_STATE_SEEDING);
  status.set_reason("waiting for a first worker");
  status.set_method("diloco");
  status.set_rounds_total(3);
  status.set_workers_expected(1);
  status.set_quorum(1);
  status.set_software_version("0.1.0");
  status.set_snapshot_version(-1);
  EXPECT_EQ(StatusText(status),
            "run            demo\n"
            "state          seeding: waiting for a first worker\n"
            "method         diloco\n"
            "rounds         0 of 3 committed\n"
            "workers        0 alive, 0 participating, 1 expected, 1 needed for a round\n"
            "model          -\n"
            "held-out loss  -\n"
            "traffic        0 B received, 0 B sent\n"
            "snapshot       -\n"
            "checkpoint     -\n"
            "coordinator    0.1.0, up 0.0s\n");
}

TEST(StatusViewTest, WhatPeersSentCannotSteerTheTerminal) {
  v1::GetStatusResponse status = Training();
  status.set_reason("waiting for \x1B]0;owned\x07");
  EXPECT_EQ(StatusText(status).find('\x1B'), std::string::npos);
  EXPECT_NE(StatusText(status).find("\\x1b]0;owned\\x07"), std::string::npos);
}

TEST(HeldTest, ARunThatTrainsWithoutAQuorumIsHeld) {
  v1::GetStatusResponse status = Training();
  EXPECT_FALSE(Held(status).has_value());
  status.set_workers_alive(1);
  EXPECT_EQ(Held(status), "1 workers are alive and a round needs 2; start workers");
  for (const v1::RunState state : {v1::RUN_STATE_SEEDING, v1::RUN_STATE_WAITING_FOR_WORKERS, v1::RUN_STATE_ENDED}) {
    status.set_state(state);
    EXPECT_FALSE(Held(status).has_value());
  }
  status.set_state(v1::RUN_STATE_HOLDING);
  status.set_reason("the disk is full");
  EXPECT_EQ(Held(status), "the disk is full");
}

v1::RoundSummary Round(int64_t number, v1::RoundState state, std::string reason) {
  v1::RoundSummary round;
  round.set_round(number);
  round.set_state(state);
  round.set_reason(std::move(reason));
  round.set_quorum(2);
  round.set_fragments_total(8);
  return round;
}

TEST(RoundListViewTest, ShowsRounds) {
  v1::ListRoundsResponse rounds;
  *rounds.add_rounds() = Round(10, v1::ROUND_STATE_COLLECTING, "need 1 more of 2");
  rounds.mutable_rounds(0)->set_workers_present(1);
  rounds.mutable_rounds(0)->mutable_elapsed()->set_seconds(12);
  rounds.mutable_rounds(0)->mutable_elapsed()->set_nanos(400'000'000);
  *rounds.add_rounds() = Round(9, v1::ROUND_STATE_COMMITTED, "all present");
  rounds.mutable_rounds(1)->set_workers_present(2);
  rounds.mutable_rounds(1)->set_fragments_committed(8);
  rounds.mutable_rounds(1)->set_merged(16);
  rounds.mutable_rounds(1)->set_merged_late(1);
  rounds.mutable_rounds(1)->set_dropped(3);
  rounds.mutable_rounds(1)->mutable_elapsed()->set_seconds(61);
  EXPECT_EQ(RoundListText(rounds),
            "ROUND  STATE       FRAGMENTS  WORKERS  QUORUM  ELAPSED  MERGED  LATE  DROPPED  REASON\n"
            "   10  collecting        0/8        1       2    12.4s       0     0        0  need 1 more of 2\n"
            "    9  committed         8/8        2       2    1m01s      16     1        3  all present\n");
}

TEST(RoundViewTest, ShowsWhyAndWhatWasSettled) {
  v1::DescribeRoundResponse response;
  *response.mutable_summary() = Round(9, v1::ROUND_STATE_COLLECTING, "need 1 more");
  response.mutable_summary()->set_workers_present(1);
  response.mutable_summary()->set_merged(1);
  v1::FragmentRound* open = response.add_fragments();
  open->set_state(v1::ROUND_STATE_COLLECTING);
  open->set_reason("need 1 more");
  open->add_present("east");
  open->add_awaited("west");
  open->add_awaited("north");
  v1::FragmentRound* committed = response.add_fragments();
  committed->set_fragment(1);
  committed->set_state(v1::ROUND_STATE_COMMITTED);
  committed->set_reason("all present");
  committed->add_present("east");
  committed->add_abstained("west");
  committed->set_average_norm(0.12345);
  committed->set_consensus_version(8);
  committed->mutable_consensus_digest()->set_value("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10");
  v1::SettledContribution* merged = committed->add_settled();
  merged->mutable_id()->set_worker_id("east");
  merged->mutable_id()->set_round(9);
  merged->set_settlement(v1::SETTLEMENT_MERGED);
  merged->set_weight(1);
  v1::SettledContribution* dropped = committed->add_settled();
  dropped->mutable_id()->set_worker_id("west");
  dropped->mutable_id()->set_round(8);
  dropped->set_settlement(v1::SETTLEMENT_DROPPED_REFUSED);
  EXPECT_EQ(RoundText(response),
            "round          9\n"
            "state          collecting: need 1 more\n"
            "elapsed        0.0s\n"
            "workers        1 present, quorum 2\n"
            "contributions  1 merged (0 of them late), 0 dropped\n"
            "\n"
            "FRAGMENT  STATE       PRESENT  AWAITED     ABSTAINED  AVERAGE NORM  CONSENSUS VERSION  "
            "CONSENSUS DIGEST                  REASON\n"
            "       0  collecting  east     west north  -                     0                  -  "
            "-                                 need 1 more\n"
            "       1  committed   east     -           west             0.1235                  8  "
            "0102030405060708090a0b0c0d0e0f10  all present\n"
            "\n"
            "FRAGMENT  WORKER  ROUND  WEIGHT  SETTLEMENT\n"
            "       1  east        9       1  merged\n"
            "       1  west        8       0  dropped refused\n");
}

TEST(RunningConfigViewTest, IsAFileWithTheChangesAsComments) {
  v1::GetConfigResponse config;
  config.set_config_yaml("run: {id: demo}\r\nouter: {rate: 0.2}  #\t\x1B[2J\n");
  v1::RunChange* change = config.add_changes();
  change->set_from_round(30);
  change->add_settings()->set_key("outer.rate");
  change->mutable_settings(0)->set_value("0.2\n");
  EXPECT_EQ(RunningConfigText(config),
            "run: {id: demo}\n"
            "outer: {rate: 0.2}  #\t\\x1b[2J\n"
            "# from round 30 on: outer.rate: 0.2\\x0a\n");
}

TEST(CheckpointViewTest, ListsThem) {
  v1::ListCheckpointsResponse checkpoints;
  v1::CheckpointSummary* checkpoint = checkpoints.add_checkpoints();
  checkpoint->set_path("/data/checkpoints/round-00000012");
  checkpoint->set_version(12);
  checkpoint->set_size_bytes(3'338'240);
  checkpoint->mutable_age()->set_seconds(61);
  EXPECT_EQ(CheckpointListText(checkpoints),
            "VERSION    SIZE    AGE  PATH\n"
            "     12  3.3 MB  1m01s  /data/checkpoints/round-00000012\n");
}

TEST(CheckpointViewTest, ShowsWhereItIs) {
  v1::SaveCheckpointResponse saved;
  saved.set_path("/data/checkpoints/12");
  saved.set_version(12);
  saved.set_size_bytes(3'338'240);
  EXPECT_EQ(CheckpointText(saved), "checkpoint  /data/checkpoints/12\nversion     12\nsize        3.3 MB\n");
}

}  // namespace
}  // namespace diloco
