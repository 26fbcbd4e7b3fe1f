// The star against closed forms. Unless said otherwise: H = 10 steps of 1 s, so that compute is 10 s a round.
#include "coordinator/plan/star_simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace diloco {
namespace {

constexpr double kExact = 1e-9;

StarRun MakeRun(int64_t overlap, int max_late, std::vector<StarFragment> fragments, std::vector<StarLink> links) {
  return {.links = std::move(links),
          .step_seconds = 1,
          .inner_steps = 10,
          .overlap = overlap,
          .max_late = max_late,
          .fragments = std::move(fragments)};
}

std::vector<StarFragment> Alike(int count, StarFragment fragment) {
  return std::vector<StarFragment>(static_cast<size_t>(count), fragment);
}

TEST(StarSimulatorTest, GroupsWorkersWithTheSameLinks) {
  const std::vector<StarLink> groups =
      GroupAlike({{.up = 1, .down = 2}, {.up = 1, .down = 3}, {.workers = 4, .up = 1, .down = 2}});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].workers, 5);
  EXPECT_EQ(groups[1].workers, 1);
  EXPECT_EQ(groups[1].down, 3);
}

TEST(StarSimulatorTest, BlockingWaitsForUploadMergeAndDownload) {
  const StarRun run = MakeRun(0, 0, {{.up_bytes = 40, .down_bytes = 60, .merge_seconds = 3}},
                              {{.workers = 2, .up = 20, .down = 15, .latency_seconds = 0.25}});
  const StarOutcome outcome = SimulateStar(run);
  EXPECT_NEAR(outcome.utilization, 10 / (10 + 40.0 / 20 + 3 + 60.0 / 15 + 2 * 0.25), kExact);
  EXPECT_EQ(outcome.staleness_steps, 0);
}

// While one fragment comes down the next goes up: the slower direction sets the pace, the other adds one fragment.
TEST(StarSimulatorTest, BlockingPipelinesFragments) {
  const std::vector<StarLink> links = {{.workers = 2, .up = 10, .down = 10}};
  const StarRun down_heavy = MakeRun(0, 0, Alike(4, {.up_bytes = 10, .down_bytes = 20}), links);
  EXPECT_NEAR(SimulateStar(down_heavy).utilization, 10.0 / (10 + 1 + 4 * 2), kExact);
  const StarRun up_heavy = MakeRun(0, 0, Alike(4, {.up_bytes = 20, .down_bytes = 10}), links);
  EXPECT_NEAR(SimulateStar(up_heavy).utilization, 10.0 / (10 + 4 * 2 + 1), kExact);
}

TEST(StarSimulatorTest, TheCoordinatorCarriesEveryWorkersBytes) {
  StarRun run = MakeRun(0, 0, {{.up_bytes = 10, .down_bytes = 10}}, {{.workers = 5, .up = 10, .down = 10}});
  run.egress = 25;     // 5 downloads of 10: 2 s, and not the 1 s of a worker's own link.
  run.ingress = 12.5;  // 4 s.
  EXPECT_NEAR(SimulateStar(run).utilization, 10.0 / (10 + 4 + 2), kExact);
}

// The second worker is back 4 s before the first, so that its upload does not count.
TEST(StarSimulatorTest, BlockingWaitsForTheSlowestWorker) {
  const StarRun run = MakeRun(0, 0, {{.up_bytes = 10, .down_bytes = 10}},
                              {{.workers = 1, .up = 10, .down = 2}, {.workers = 3, .up = 5, .down = 10}});
  EXPECT_NEAR(SimulateStar(run).utilization, 10.0 / (10 + 1 + 5), kExact);
}

// Upload and download hide behind `overlap` steps; the rest is waited for.
TEST(StarSimulatorTest, StreamingHidesItsOverlap) {
  const std::vector<StarLink> links = {{.workers = 2, .up = 10, .down = 10, .latency_seconds = 0.5}};
  const std::vector<StarFragment> fragment = {{.up_bytes = 20, .down_bytes = 30, .offset = 4}};
  for (const int64_t overlap : {0, 2, 5, 6, 9}) {
    const StarOutcome outcome = SimulateStar(MakeRun(overlap, 0, fragment, links));
    EXPECT_NEAR(outcome.utilization, 10.0 / (10 + std::max<double>(0, 2 + 3 + 1 - static_cast<double>(overlap))),
                kExact);
    EXPECT_EQ(outcome.staleness_steps, static_cast<double>(overlap));
  }
}

// Fragments at offsets of their own: each of the two is waited for once a round.
TEST(StarSimulatorTest, EachFragmentIsWaitedForAtItsOwnOffset) {
  const StarRun run =
      MakeRun(1, 0, {{.up_bytes = 10, .down_bytes = 10, .offset = 0}, {.up_bytes = 10, .down_bytes = 20, .offset = 5}},
              {{.workers = 2, .up = 10, .down = 10}});
  EXPECT_NEAR(SimulateStar(run).utilization, 10.0 / (10 + (1 + 1 - 1) + (1 + 2 - 1)), kExact);
}

TEST(StarSimulatorTest, EagerIsFreeAboveItsBoundAndProportionalBelow) {
  for (const double rate : {0.1, 0.5, 0.9, 0.99}) {  // Of what the larger direction needs.
    StarRun run =
        MakeRun(10, 1, Alike(8, {.up_bytes = 5, .down_bytes = 10}), {{.workers = 4, .up = 8 * rate, .down = 8 * rate}});
    run.sends_first = false;
    const StarOutcome outcome = SimulateStar(run);
    EXPECT_NEAR(outcome.utilization, rate, 1e-6);
    EXPECT_GE(outcome.staleness_steps, 10);
    EXPECT_LE(outcome.staleness_steps, 20);
    EXPECT_NEAR(SteadyBoundOf(run).utilization, rate, kExact);
    EXPECT_EQ(SteadyBoundOf(run).bottleneck, "down");
  }
}

// Without rounds to be late, up one fragment and then down all of them has to fit into a round.
TEST(StarSimulatorTest, OneRoundsOverlapHidesTheLongerDirectionAndAFragmentOfTheOther) {
  for (const double rate : {6.0, 8.0, 8.96}) {
    StarRun run =
        MakeRun(10, 0, Alike(8, {.up_bytes = 5, .down_bytes = 10}), {{.workers = 4, .up = rate, .down = rate}});
    run.sends_first = false;
    const StarOutcome outcome = SimulateStar(run);
    EXPECT_NEAR(outcome.utilization, std::min(1.0, 10 / ((5 + 8 * 10) / rate)), kExact) << rate;
    EXPECT_EQ(outcome.staleness_steps, 10);
  }
}

// An outer gradient takes 25 s to come back as an average and is waited for n rounds later. Sent after the wait of its
// own step, n rounds take those 25 s; sent before it, n + 1 rounds take 10 s of compute and those 25 s.
TEST(StarSimulatorTest, LatencyIsHiddenByRoundsOnTheirWay) {
  const std::vector<StarLink> far = {{.workers = 2, .latency_seconds = 12.5}};
  for (const int64_t overlap_rounds : {0, 1, 2, 3}) {
    for (const int max_late : {0, 1}) {
      StarRun run = MakeRun(10 * overlap_rounds, max_late, {{.up_bytes = 1, .down_bytes = 1}}, far);
      const auto rounds = static_cast<double>(overlap_rounds + max_late);
      EXPECT_NEAR(SimulateStar(run).utilization, std::min(1.0, 10 * (rounds + 1) / 35), kExact) << rounds;
      if (rounds == 0) continue;  // Its own average cannot come before it is sent.
      run.sends_first = false;
      EXPECT_NEAR(SimulateStar(run).utilization, std::min(1.0, 10 * rounds / 25), kExact) << rounds;
    }
  }
}

TEST(StarSimulatorTest, DataParallelIsARoundOfOneStep) {
  StarRun run = MakeRun(0, 0, {{.up_bytes = 10, .down_bytes = 10}}, {{.workers = 2, .up = 5, .down = 10}});
  run.inner_steps = 1;
  EXPECT_NEAR(SimulateStar(run).utilization, 1.0 / (1 + 2 + 1), kExact);
}

TEST(StarSimulatorTest, TheBoundNamesWhatIsTightest) {
  StarRun run = MakeRun(10, 1, Alike(2, {.up_bytes = 50, .down_bytes = 50, .merge_seconds = 1}),
                        {{.workers = 2, .up = 100, .down = 100}});
  EXPECT_EQ(SteadyBoundOf(run).utilization, 1);
  run.egress = 16;
  EXPECT_NEAR(SteadyBoundOf(run).utilization, 0.8, kExact);
  EXPECT_EQ(SteadyBoundOf(run).bottleneck, "egress");
  run.ingress = 10;
  EXPECT_NEAR(SteadyBoundOf(run).utilization, 0.5, kExact);
  EXPECT_EQ(SteadyBoundOf(run).bottleneck, "ingress");
  run.links[0].up = 4;
  EXPECT_NEAR(SteadyBoundOf(run).utilization, 0.4, kExact);
  EXPECT_EQ(SteadyBoundOf(run).bottleneck, "up");
  run.fragments[0].merge_seconds = 49;
  EXPECT_NEAR(SteadyBoundOf(run).utilization, 0.2, kExact);
  EXPECT_EQ(SteadyBoundOf(run).bottleneck, "merge");
  EXPECT_LE(SimulateStar(run).utilization, 0.2);
}

}  // namespace
}  // namespace diloco
