#include "coordinator/ctl/watch_view.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>

namespace diloco {
namespace {

MonotonicTime At(double seconds) { return MonotonicTime{} + absl::Seconds(seconds); }

TEST(EtaEstimatorTest, NeedsTwoCommitsThatWereSeen) {
  EtaEstimator eta;
  eta.Observe(At(0), 500);
  EXPECT_EQ(eta.Remaining(At(0), 1000), std::nullopt);
  eta.Observe(At(5), 501);
  EXPECT_EQ(eta.Remaining(At(5), 1000), std::nullopt) << "how long round 500 took was not seen";
  eta.Observe(At(15), 502);
  EXPECT_EQ(eta.Remaining(At(15), 1000), absl::Seconds(4980));
}

// A look that comes late in a run must not count the rounds of before: 500 rounds in 0 s would be a rate of infinity.
TEST(EtaEstimatorTest, CountsOnlyWhatWasCommittedWhileWatching) {
  EtaEstimator eta;
  eta.Observe(At(100), 500);
  eta.Observe(At(104), 502);
  eta.Observe(At(106), 502);
  eta.Observe(At(112), 506);
  EXPECT_EQ(eta.Remaining(At(112), 526), absl::Seconds(40));  // 4 rounds in 8 s, 20 left.
  EXPECT_EQ(eta.Remaining(At(115), 526), absl::Seconds(37)) << "it goes on while nothing commits";
  EXPECT_EQ(eta.Remaining(At(500), 526), absl::ZeroDuration());
  EXPECT_EQ(eta.Remaining(At(112), 506), absl::ZeroDuration());
}

v1::GetStatusResponse Status() {
  v1::GetStatusResponse status;
  status.set_run_id("demo");
  status.set_state(v1::RUN_STATE_TRAINING);
  status.set_reason("round 12 of fragment 0: need 1 more of 2");
  status.set_rounds_committed(12);
  status.set_rounds_total(40);
  status.set_parameters(1'000'000);
  for (const auto& [version, loss] : {std::pair{10, 2.5}, {0, 5.5452}}) {  // Newest first.
    v1::Evaluation* evaluation = status.add_evaluations();
    evaluation->set_version(version);
    evaluation->set_loss(loss);
  }
  return status;
}

v1::ListWorkersResponse Workers() {
  v1::ListWorkersResponse workers;
  v1::WorkerSummary* east = workers.add_workers();
  east->set_worker_id("east");
  east->set_state(v1::WORKER_STATE_ALIVE);
  v1::WorkerProgress* progress = east->mutable_progress();
  progress->set_step(361);
  progress->set_session_steps(300);
  progress->set_loss(2.40124);
  progress->set_first_loss(5.54518);
  progress->set_tokens(614'400);
  progress->set_tokens_per_second(5120.4);
  progress->set_wall_seconds(200);
  progress->set_blocked_seconds(3);
  progress->set_round(12);
  progress->set_staleness(1);
  progress->set_uploaded_bytes(6'000'000);
  progress->set_downloaded_bytes(12'000'000);
  v1::WorkerSummary* west = workers.add_workers();
  west->set_worker_id("west");
  west->set_state(v1::WORKER_STATE_LOST);
  return workers;
}

TEST(WatchViewTest, TableForATerminal) {
  EXPECT_EQ(WatchTable(Status(), Workers(), absl::Seconds(92)),
            "run demo: training, 12 of 40 rounds, held-out loss 2.5000 nats a token at version 10, ETA 1m32s\n"
            "round 12 of fragment 0: need 1 more of 2\n"
            "WORKER  STATE  STEP  LOSS (NATS)  TOKENS/S  UTILIZATION (%)  BLOCKED (S)  ROUND  STALENESS (ROUNDS)\n"
            "east    alive   361       2.4012      5120             98.5          3.0     12                   1\n"
            "west    lost      -            -         -                -            -      -                   -\n");
}

TEST(WatchViewTest, LinesForALog) {
  v1::GetStatusResponse status = Status();
  status.clear_evaluations();
  EXPECT_EQ(WatchLines(status, Workers(), std::nullopt),
            "run demo: training, 12 of 40 rounds, ETA -\n"
            "  east alive: step 361, loss 2.4012, 5120 tokens/s, utilization 98.5 %, blocked 3.0 s, round 12, "
            "staleness 1\n"
            "  west lost\n");
}

TEST(WatchViewTest, EndsWhenNothingMoreWillCome) {
  v1::GetStatusResponse status = Status();
  v1::ListWorkersResponse workers = Workers();
  workers.mutable_workers(0)->set_state(v1::WORKER_STATE_LEFT);
  status.set_checkpoint_path("/c");
  status.set_checkpoint_version(40);
  EXPECT_FALSE(HasEnded(status, workers)) << "training";
  status.set_state(v1::RUN_STATE_ENDED);
  EXPECT_TRUE(HasEnded(status, workers));
  status.set_checkpoint_version(39);
  EXPECT_FALSE(HasEnded(status, workers)) << "the final checkpoint is being written";
  status.set_checkpoint_version(40);
  workers.mutable_workers(0)->set_state(v1::WORKER_STATE_ALIVE);
  EXPECT_FALSE(HasEnded(status, workers)) << "a worker evaluates";
}

TEST(WatchViewTest, SummaryOfARun) {
  v1::GetStatusResponse status = Status();
  status.set_rounds_committed(40);
  status.set_checkpoint_path("/data/checkpoints/40");
  v1::ListWorkersResponse workers = Workers();
  v1::WorkerProgress* west = workers.mutable_workers(1)->mutable_progress();
  west->set_session_steps(150);
  west->set_tokens(307'200);
  west->set_first_loss(5.6);
  west->set_loss(NAN);
  west->set_uploaded_bytes(2'000'000);
  // Moved: 6 + 12 + 2 = 20 MB. Every step: 1M parameters * 4 bytes * 2 directions * 450 steps = 3.6 GB, 180 times.
  EXPECT_EQ(SummaryText(status, workers),
            "\n"
            "WORKER  STEPS  TOKENS  FIRST LOSS (NATS)  LAST LOSS (NATS)  UTILIZATION (%)  BLOCKED (S)  UPLOADED  "
            "DOWNLOADED\n"
            "east      300  614400             5.5452            2.4012             98.5          3.0    6.0 MB  "
            "   12.0 MB\n"
            "west      150  307200             5.6000                 -                -          0.0    2.0 MB  "
            "       0 B\n"
            "\n"
            "rounds         40 of 40\n"
            "held-out loss  first 5.5452 nats a token at version 0, last 2.5000 nats a token at version 10\n"
            "bytes moved    20.0 MB; float32 gradients at every step would have moved 3.6 GB, 180 times as much\n"
            "checkpoint     /data/checkpoints/40\n");
}

TEST(WatchViewTest, SummaryOfARunWithoutNumbers) {
  EXPECT_EQ(SummaryText({}, {}),
            "\n"
            "WORKER  STEPS  TOKENS  FIRST LOSS (NATS)  LAST LOSS (NATS)  UTILIZATION (%)  BLOCKED (S)  UPLOADED  "
            "DOWNLOADED\n"
            "\n"
            "rounds         0 of 0\n"
            "held-out loss  -\n"
            "bytes moved    0 B; float32 gradients at every step would have moved 0 B\n"
            "checkpoint     -\n");
}

}  // namespace
}  // namespace diloco
