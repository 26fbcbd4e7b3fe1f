// Plans against closed forms of their links, and the presets against the numbers that name them.
#include "coordinator/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/plan/presets.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;

// 64,000 parameters a layer, so that blocks of 64 come out even: 4.125 bits a parameter in e3m0, 8.125 in int8.
constexpr PlanModel kModel = {.layers = 16, .layer_parameters = 64'000, .step_seconds = 0.1};
constexpr double kParameters = 1'024'000;
constexpr double kUpBytes = kParameters * 4.125 / 8;
constexpr double kDownBytes = kParameters * 8.125 / 8;
constexpr double kGradientBytes = kParameters * 2;

// H = 30: 3 s of compute a round.
PlanNetwork Network(double up, double down, double latency_seconds = 0) {
  return {.links = {{.workers = 2, .up = up, .down = down, .latency_seconds = latency_seconds}}};
}

MethodPlan Plan(const PlanNetwork& network, const PlanChoice& choice) {
  absl::StatusOr<MethodPlan> plan = PlanFor(kModel, network, choice);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : MethodPlan{};
}

TEST(PlanTest, EagerNeedsTheLargerDirectionInARoundsTime) {
  const MethodPlan plan = Plan(Network(kDownBytes / 3, kDownBytes / 3), {.method = "eager"});
  EXPECT_EQ(plan.run.fragments.size(), 8u);
  EXPECT_DOUBLE_EQ(plan.upload_bytes, kUpBytes);
  EXPECT_DOUBLE_EQ(plan.download_bytes, kDownBytes);
  EXPECT_DOUBLE_EQ(plan.steady_link, kDownBytes / 3);
  EXPECT_NEAR(plan.outcome.utilization, 1, 1e-9);
  EXPECT_NEAR(plan.rounds_per_day, 86400 / 3.0, 1e-6);
  for (size_t t = 0; t < kPlanTargets.size(); ++t) {
    ASSERT_TRUE(plan.needed_link[t].has_value());
    EXPECT_NEAR(*plan.needed_link[t] / (kPlanTargets[t] * kDownBytes / 3), 1, 1e-3);
  }
  const MethodPlan half = Plan(Network(kUpBytes, kDownBytes / 6), {.method = "eager"});
  EXPECT_NEAR(half.outcome.utilization, 0.5, 1e-6);
  EXPECT_NEAR(half.rounds_per_day, 86400 / 6.0, 1e-2);
  EXPECT_EQ(half.bound.bottleneck, "down");
}

// The outer gradients of a round go once its wait is over: one fragment up, then all down, before the next is over.
TEST(PlanTest, DelayedNeedsAFragmentOfTheOtherDirectionToo) {
  const double rate = kDownBytes / 3;
  const MethodPlan plan = Plan(Network(rate, rate), {.method = "delayed"});
  EXPECT_NEAR(plan.outcome.utilization, 3 / ((kUpBytes / 8 + kDownBytes) / rate), 1e-9);
}

TEST(PlanTest, BlockingNeedsUploadAndDownloadOnTop) {
  const double latency = 0.05;
  const MethodPlan plan = Plan(Network(kUpBytes, kDownBytes, latency), {.method = "diloco", .fragments = 1});
  EXPECT_NEAR(plan.outcome.utilization, 3 / (3 + 1 + 1 + 2 * latency), 1e-9);
  for (size_t t = 0; t < kPlanTargets.size(); ++t) {
    const double spare = 3 / kPlanTargets[t] - 3 - 2 * latency;  // Seconds that the transfers may take.
    EXPECT_EQ(plan.needed_link[t].has_value(), spare > 0) << kPlanTargets[t];
    if (plan.needed_link[t].has_value()) {
      EXPECT_NEAR(*plan.needed_link[t] * spare / (kUpBytes + kDownBytes), 1, 1e-3);
    }
  }
}

TEST(PlanTest, DataParallelSendsGradientsAfterEveryStep) {
  const MethodPlan plan = Plan(Network(kGradientBytes, kGradientBytes), {.method = "data-parallel", .inner_steps = 30});
  EXPECT_EQ(plan.inner_steps, 1);
  EXPECT_EQ(plan.uplink->name, "bf16");
  ASSERT_EQ(plan.run.fragments.size(), 1u);
  EXPECT_NEAR(plan.outcome.utilization, 0.1 / (0.1 + 1 + 1), 1e-9);
  EXPECT_DOUBLE_EQ(plan.steady_link, kGradientBytes / 0.1);
}

// 16 layers make 6 strided fragments: of 3 layers, but for the last two.
TEST(PlanTest, StreamingSpreadsStridedFragments) {
  const MethodPlan plan = Plan(Network(kUnlimited, kUnlimited), {.method = "streaming", .overlap_steps = 2});
  std::vector<double> layers;
  std::vector<int64_t> offsets;
  for (const StarFragment& fragment : plan.run.fragments) {
    layers.push_back(fragment.up_bytes / (64'000 * 4.125 / 8));
    offsets.push_back(fragment.offset);
  }
  EXPECT_EQ(layers, (std::vector<double>{3, 3, 3, 3, 2, 2}));
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 5, 10, 15, 20, 25}));
  EXPECT_EQ(plan.outcome.utilization, 1);
  EXPECT_EQ(plan.outcome.staleness_steps, 2);
}

TEST(PlanTest, OverlapsAreCountedAsTheMethodDoes) {
  const PlanNetwork network = Network(kUnlimited, kUnlimited);
  EXPECT_EQ(Plan(network, {.method = "diloco", .overlap_steps = 3, .overlap_rounds = 2}).overlap, 0);
  EXPECT_EQ(Plan(network, {.method = "streaming", .overlap_steps = 3, .overlap_rounds = 2}).overlap, 3);
  EXPECT_EQ(Plan(network, {.method = "delayed", .overlap_rounds = 2}).overlap, 60);
  EXPECT_EQ(Plan(network, {.method = "eager", .overlap_rounds = 2}).outcome.staleness_steps, 60);
  EXPECT_EQ(Plan(network, {.method = "eager", .max_late = 3}).max_late, 3);
  EXPECT_EQ(Plan(network, {.method = "delayed", .max_late = 3}).max_late, 0);
}

TEST(PlanTest, TheCoordinatorsEgressCarriesADownloadForEachWorker) {
  PlanNetwork network = Network(kUnlimited, kUnlimited);
  network.egress = kDownBytes / 3;  // One download a round, where there are two.
  const MethodPlan plan = Plan(network, {.method = "eager"});
  EXPECT_NEAR(plan.outcome.utilization, 0.5, 1e-6);
  EXPECT_EQ(plan.bound.bottleneck, "egress");
  EXPECT_TRUE(plan.needed_link[0].has_value());
  EXPECT_FALSE(plan.needed_link[1].has_value()) << "no link of a worker makes up for the coordinator's";
}

TEST(PlanTest, MergingTakesItsTime) {
  PlanNetwork network = Network(kUnlimited, kUnlimited);
  network.merge_rate = kParameters * 4;  // One contribution a second.
  EXPECT_NEAR(Plan(network, {.method = "diloco"}).outcome.utilization, 3.0 / 5, 1e-9);
}

// The papers' 100B parameters at H = 100, in four bits and the scales of a codec's blocks.
TEST(PlanTest, TheHeadlinesSteadyBound) {
  const absl::StatusOr<Preset> preset = FindPreset("100B-paper");
  ASSERT_TRUE(preset.ok());
  const absl::StatusOr<MethodPlan> plan =
      PlanFor(preset->model, Network(kUnlimited, kUnlimited),
              {.method = "eager", .inner_steps = 100, .uplink = FindCodec("e3m0"), .downlink = FindCodec("e3m0")});
  ASSERT_TRUE(plan.ok());
  EXPECT_NEAR(plan->steady_link * 8 / 1e9, 0.816 * 4.125 / 4, 0.001);
}

TEST(PlanTest, RefusesWhatNoMethodIs) {
  EXPECT_THAT(std::string(PlanFor(kModel, Network(1, 1), {.method = "lazy"}).status().message()),
              HasSubstr("method \"lazy\" is not known; use one of eager, delayed"));
  const absl::Status status =
      PlanFor(kModel, Network(1, 1), {.method = "streaming", .inner_steps = 5, .overlap_steps = 5}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "streaming with an overlap of 5 inner steps: use fewer than H, which is 5");
}

// Layers of 12 * width^2 parameters and norms, twice vocabulary * width beside them.
TEST(PresetsTest, HaveTheParametersOfTheirShapes) {
  const PlanModel model = FindPreset("35M").value().model;
  EXPECT_EQ(model.layers, 6);
  EXPECT_EQ(model.layer_parameters, 12 * 512 * 512 + 2 * 512 + 2 * 64);
  EXPECT_EQ(model.embedding_parameters, 32'000 * 512);
  EXPECT_EQ(model.head_parameters, 32'000 * 512 + 512);
  EXPECT_NEAR(static_cast<double>(FindPreset("4B").value().model.parameters()), 4.3e9, 0.05e9);
  EXPECT_NEAR(static_cast<double>(FindPreset("10B-paper").value().model.parameters()), 1e10, 48);
  EXPECT_THAT(std::string(FindPreset("2B").status().message()), HasSubstr("use one of 35M, 100M"));
}

}  // namespace
}  // namespace diloco
