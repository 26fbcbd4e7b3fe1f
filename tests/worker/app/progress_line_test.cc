#include "worker/app/progress_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace diloco {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

WorkerStatus Training() {
  WorkerStatus status;
  status.state = "training";
  status.step = 450;
  status.steps = 1350;
  status.session_steps = 450;
  status.round = 15;
  status.rounds = 45;
  status.applied_version = 14;
  status.loss = 2.01449;
  status.first_loss = 5.5;
  status.tokens_per_second = 9876.4;
  status.blocked_seconds = 0.5;
  status.wall_seconds = 49;
  status.evaluation_seconds = 1;
  status.connected = true;
  return status;
}

TEST(ProgressLineTest, ShowsEverything) {
  EXPECT_EQ(ProgressLine("east", Training()),
            "east training  step 450/1350  loss 2.014  9876 tokens/s  utilization 99.0%  blocked 0.5s  round 15/45  "
            "staleness 1  left 1m40s");
}

TEST(ProgressLineTest, BeforeTheFirstStepShowsTheStateAlone) {
  WorkerStatus status;
  status.state = "waiting for workers";
  EXPECT_EQ(ProgressLine("east", status), "east waiting for workers");
}

TEST(ProgressLineTest, TimeLeftFollowsThisSessionsPaceOnly) {
  WorkerStatus status = Training();
  // 300 of the 450 steps were taken before this session began: 50 s for 150 steps.
  status.session_steps = 150;
  EXPECT_THAT(ProgressLine("east", status), EndsWith("left 5m00s"));
  status.step = 1350;
  EXPECT_THAT(ProgressLine("east", status), EndsWith("left 0s"));
}

TEST(ProgressLineTest, TimeLeftIsReadableAtAnyLength) {
  WorkerStatus status = Training();
  status.session_steps = 1;
  status.step = 1;
  status.evaluation_seconds = 0;
  status.steps = 2;
  for (const auto& [seconds, text] : std::vector<std::pair<double, std::string>>{{0.2, "1s"},
                                                                                 {59, "59s"},
                                                                                 {60, "1m00s"},
                                                                                 {3599, "59m59s"},
                                                                                 {3660, "1h01m"},
                                                                                 {86400, "1d00h"},
                                                                                 {200000, "2d07h"},
                                                                                 {1e12, "unknown"}}) {
    status.wall_seconds = seconds;
    EXPECT_THAT(ProgressLine("east", status), EndsWith("left " + text));
  }
}

TEST(ProgressLineTest, SaysWhenTheCoordinatorIsGone) {
  WorkerStatus status = Training();
  EXPECT_THAT(ProgressLine("east", status), Not(HasSubstr("coordinator")));
  status.connected = false;
  EXPECT_THAT(ProgressLine("east", status), EndsWith("(no coordinator)"));
}

TEST(SummaryLineTest, SaysHowFarTheLossCame) {
  WorkerStatus status = Training();
  status.state = "done";
  status.step = 1350;
  status.uploaded_bytes = 12'340'000;
  status.downloaded_bytes = 45'600'000;
  EXPECT_EQ(SummaryLine("east", status),
            "east done: 1350 of 1350 steps, loss 5.500 to 2.014, utilization 99.0%, blocked 0.5s, sent 12.3 MB, "
            "received 45.6 MB");
  status.evaluation_version = 45;
  status.evaluation_loss = 1.9;
  EXPECT_THAT(SummaryLine("east", status), HasSubstr("loss 5.500 to 2.014, held-out loss 1.900, utilization"));
}

TEST(SummaryLineTest, SaysWhenTheRunWasLeft) {
  EXPECT_THAT(SummaryLine("east", Training()), StartsWith("east stopped: 450 of 1350 steps, loss"));
  WorkerStatus status;
  status.state = "waiting for workers";
  status.steps = 1350;
  EXPECT_EQ(SummaryLine("east", status), "east stopped: 0 of 1350 steps");
}

}  // namespace
}  // namespace diloco
