#include "coordinator/ctl/worker_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace diloco {
namespace {

using ::testing::HasSubstr;

v1::WorkerSummary East() {
  v1::WorkerSummary east;
  east.set_worker_id("east");
  east.set_state(v1::WORKER_STATE_ALIVE);
  east.set_incarnation(0x1234);
  east.mutable_last_heard()->set_nanos(800'000'000);
  east.set_participating(true);
  east.set_evaluator(true);
  east.set_software_version("0.1.0");
  v1::WorkerProgress* progress = east.mutable_progress();
  progress->set_step(361);
  progress->set_round(12);
  progress->set_version(11);
  progress->set_staleness(1);
  progress->set_loss(NAN);
  progress->set_first_loss(5.5);
  progress->set_tokens(369'664);
  progress->set_tokens_per_second(5119.6);
  progress->set_session_steps(61);
  progress->set_wall_seconds(100);
  progress->set_blocked_seconds(0.94);
  progress->set_evaluation_seconds(2);
  progress->set_rounds_skipped(3);
  progress->set_outer_gradients_not_finite(4);
  progress->set_uploaded_bytes(1'500'000);
  progress->set_downloaded_bytes(3'000'000);
  return east;
}

v1::WorkerSummary West() {
  v1::WorkerSummary west;
  west.set_worker_id("west");
  west.set_state(v1::WORKER_STATE_LOST);
  west.mutable_last_heard()->set_seconds(75);
  return west;
}

TEST(WorkerListViewTest, ShowsWorkersWithAndWithoutReports) {
  v1::ListWorkersResponse workers;
  *workers.add_workers() = East();
  *workers.add_workers() = West();
  EXPECT_EQ(WorkerListText(workers),
            "WORKER  STATE      HEARD  PARTICIPATING  EVALUATOR  STEP  ROUND  STALENESS (ROUNDS)  LOSS (NATS)  "
            "TOKENS/S  UTILIZATION (%)  BLOCKED (S)  VERSION\n"
            "east    alive   0.8s ago  yes            yes         361     12                   1            -  "
            "    5120             99.1          0.9  0.1.0\n"
            "west    lost   1m15s ago  no             no            -      -                   -            -  "
            "       -                -            -  -\n");
}

TEST(WorkerListViewTest, WideHasMoreColumns) {
  v1::ListWorkersResponse workers;
  *workers.add_workers() = East();
  *workers.add_workers() = West();
  const std::string text = WorkerListText(workers, {.wide = true});
  EXPECT_THAT(text, HasSubstr("BLOCKED (S)  CONSENSUS VERSION  TOKENS  SKIPPED (ROUNDS)  UPLOADED  DOWNLOADED  "
                              "INCARNATION       VERSION\n"));
  EXPECT_THAT(text, HasSubstr("        0.9                 11  369664                 3    1.5 MB      3.0 MB  "
                              "0000000000001234  0.1.0\n"));
  EXPECT_THAT(text, HasSubstr("          -                  -       -                 -         -           -  "
                              "0000000000000000  -\n"));
}

TEST(WorkerListViewTest, StatesHaveColours) {
  v1::ListWorkersResponse workers;
  *workers.add_workers() = East();
  *workers.add_workers() = West();
  const std::string text = WorkerListText(workers, {.colors = Colors::kOn});
  EXPECT_THAT(text, HasSubstr("east    \x1B[32malive\x1B[0m "));
  EXPECT_THAT(text, HasSubstr("west    \x1B[31mlost\x1B[0m "));
}

v1::WorkerRound Round(int64_t number, uint32_t fragment, v1::WorkerRoundState state) {
  v1::WorkerRound round;
  round.set_round(number);
  round.set_fragment(fragment);
  round.set_state(state);
  return round;
}

TEST(WorkerViewTest, ShowsEverythingAndJoinsFragmentsThatAreAlike) {
  v1::DescribeWorkerResponse worker;
  *worker.mutable_summary() = East();
  worker.mutable_lease()->set_seconds(20);
  worker.set_settled_round(9);
  for (const uint32_t fragment : {0U, 1U}) {
    v1::WorkerRound& round = *worker.add_rounds();
    round = Round(12, fragment, v1::WORKER_ROUND_STATE_RECEIVING);
    round.set_received_bytes(500'000);
    round.set_total_bytes(1'000'000);
  }
  *worker.add_rounds() = Round(12, 2, v1::WORKER_ROUND_STATE_PRESENT);
  *worker.add_rounds() = Round(12, 4, v1::WORKER_ROUND_STATE_PRESENT);  // Fragment 3 is a round ahead.
  *worker.add_rounds() = Round(13, 0, v1::WORKER_ROUND_STATE_AWAITED);
  EXPECT_EQ(WorkerText(worker),
            "worker         east\n"
            "state          alive, heard 0.8s ago; lost after 20.0s of silence\n"
            "incarnation    0000000000001234, version 0.1.0\n"
            "participating  yes, from round 0 on\n"
            "evaluator      yes\n"
            "settled        up to round 9\n"
            "position       step 361, round 12, consensus version 11, staleness 1 rounds\n"
            "loss           - nats a token, 5.5000 when its session began\n"
            "throughput     5120 tokens/s; 61 steps in this session, 369664 tokens in all\n"
            "utilization    99.1 %: blocked 0.9 s of 1m40s, evaluating 2.0 s\n"
            "traffic        1.5 MB uploaded, 3.0 MB downloaded\n"
            "not sent       3 rounds skipped, 4 outer gradients not finite\n"
            "\n"
            "ROUND  FRAGMENTS  STATE              RECEIVED\n"
            "   12        0-1  receiving  1.0 MB of 2.0 MB\n"
            "   12          2  present                   -\n"
            "   12          4  present                   -\n"
            "   13          0  awaited                   -\n");
}

TEST(WorkerViewTest, ShowsOneThatHasNotReported) {
  v1::DescribeWorkerResponse worker;
  *worker.mutable_summary() = West();
  worker.set_settled_round(-1);
  const std::string text = WorkerText(worker);
  EXPECT_THAT(text, HasSubstr("settled        nothing\nprogress       not reported yet\n\nROUND"));
}

}  // namespace
}  // namespace diloco
