#include "coordinator/ctl/preflight_need.h"

#include <gtest/gtest.h>

namespace diloco {
namespace {

RunConfig Parsed(const std::string& more) {
  const absl::StatusOr<RunConfig> config = ParseRunConfig("run: {id: r1, workers: 2, rounds: 7}\n" + more, "run.yaml");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.value_or(RunConfig());
}

// A million parameters as fp32 are 4 MB; a round of 10 steps of 0.1 s lasts 1 s.
TEST(PreflightNeedTest, IsABytesOfARoundInARoundsTime) {
  const RunConfig config = Parsed("inner_steps: 10\nwire: {uplink: fp32, downlink: bf16}\nfragments: {count: 1}\n");
  const auto need = NeedOf(config, 1'000'000, 0.1, {.up = 100e6, .down = 100e6});
  ASSERT_TRUE(need.ok()) << need.status();
  EXPECT_NEAR(need->up, 4e6, 4e3);
  EXPECT_NEAR(need->down, 2e6, 2e3);
  EXPECT_DOUBLE_EQ(need->utilization, 1);
  EXPECT_TRUE(need->MetBy({.up = 4.1e6, .down = 2.1e6}));
  EXPECT_FALSE(need->MetBy({.up = 3.9e6, .down = 100e6}));
  EXPECT_FALSE(need->MetBy({.up = 100e6, .down = 1.9e6}));
}

TEST(PreflightNeedTest, ASlowLinkCostsUtilization) {
  const RunConfig config = Parsed("inner_steps: 10\nwire: {uplink: fp32, downlink: fp32}\nfragments: {count: 1}\n");
  const auto need = NeedOf(config, 1'000'000, 0.1, {.up = 2e6, .down = 2e6});
  ASSERT_TRUE(need.ok()) << need.status();
  EXPECT_LE(need->utilization, 0.5) << "4 MB take 2 s where 1 s computes";
  ASSERT_TRUE(need->useful_link.has_value());
  EXPECT_GT(*need->useful_link, 3.8e6);
}

TEST(PreflightNeedTest, EachMethodHasANeed) {
  for (const char* method : {"eager", "delayed", "blend", "diloco", "streaming", "data-parallel"}) {
    const std::string h = std::string(method) == "data-parallel" ? "" : "inner_steps: 20\n";
    const auto need = NeedOf(Parsed(std::string("method: ") + method + "\n" + h), 5'000'000, 0.2,
                             {.up = 1e6, .down = 1e6, .round_trip_seconds = 0.05});
    ASSERT_TRUE(need.ok()) << method << ": " << need.status();
    EXPECT_GT(need->up, 0) << method;
    EXPECT_GT(need->utilization, 0) << method;
    EXPECT_LE(need->utilization, 1) << method;
  }
}

// Two layers of width 8, one head, feed-forward 32, 10 words: two embeddings of 80, 8 for the last norm, and a layer of
// 2 * 8 norms, 4 * 64 attention, 2 * 8 norms of queries and keys, 2 * 8 * 32 feed-forward.
TEST(PreflightNeedTest, CountsTheParametersOfTheModel) {
  const RunConfig config = Parsed("model: {layers: 2, width: 8, heads: 1, vocabulary: 10, sequence: 4}\n");
  EXPECT_EQ(ParametersOf(config), 2 * 80 + 8 + 2 * (16 + 256 + 16 + 512));
  EXPECT_EQ(ParametersOf(Parsed("")), std::nullopt);
}

TEST(PreflightNeedTest, AStepTakesWhatTheFastestWorkerTook) {
  v1::ListWorkersResponse workers;
  EXPECT_EQ(StepSecondsOf(workers), std::nullopt);
  v1::WorkerProgress* slow = workers.add_workers()->mutable_progress();
  EXPECT_EQ(StepSecondsOf(workers), std::nullopt) << "nothing reported";
  slow->set_session_steps(10);
  slow->set_wall_seconds(30);
  slow->set_blocked_seconds(10);
  EXPECT_DOUBLE_EQ(*StepSecondsOf(workers), 2);
  v1::WorkerProgress* fast = workers.add_workers()->mutable_progress();
  fast->set_session_steps(10);
  fast->set_wall_seconds(5);
  EXPECT_DOUBLE_EQ(*StepSecondsOf(workers), 0.5);
  workers.add_workers()->mutable_progress()->set_session_steps(7);  // Without a time: it says nothing.
  EXPECT_DOUBLE_EQ(*StepSecondsOf(workers), 0.5);
}

}  // namespace
}  // namespace diloco
