// Values are worked out by hand with rate 0.5, momentum 0.5 and lambda 0.5, all exact in binary.
#include "worker/outer/fragment_outer.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <vector>

namespace diloco {
namespace {

constexpr StepScalars kScalars{.rate = 0.5f, .momentum = 0.5f, .participating_weight = 2};

FragmentOuter Make(const char* method, std::optional<double> lambda, bool shared, const char* optimizer = "nesterov",
                   StepScalars scalars = kScalars) {
  return FragmentOuter({.method = FindMethod(method),
                        .lookahead = {.lambda = lambda, .shared_momentum = shared},
                        .next_scalars = scalars},
                       Consensus(FindOuterOptimizer(optimizer), {8.0f}));
}

OwnContribution Own(int64_t round, float lambda, float d) {
  return {.round = round, .digest = {9, static_cast<uint64_t>(round)}, .lambda = lambda, .decoded = {d}};
}

OwnSettlement Settle(int64_t round, bool merged) {
  return {.round = round, .digest = {9, static_cast<uint64_t>(round)}, .merged = merged, .weight = merged ? 1.0 : 0.0};
}

TEST(FragmentOuterTest, WithoutLookaheadThetaBecomesTheConsensus) {
  FragmentOuter outer = Make("delayed", std::nullopt, false);
  outer.Contribute(Own(0, 0, 4.0f));
  ASSERT_TRUE(outer.Apply(kScalars, {2.0f}, {}).ok());
  const FragmentOuter::Staged staged = outer.Stage();
  // b = 2; s = 8 - 0.5 * (2 + 0.5 * 2) = 6.5.
  EXPECT_EQ(staged.base, std::vector<float>{6.5f});
  EXPECT_EQ(staged.coefficient, 0.0f);
  EXPECT_EQ(staged.version, 1);
  EXPECT_TRUE(outer.unsettled().empty());
}

TEST(FragmentOuterTest, FirstBoundaryLooksAheadOverItsOwnGradientOnly) {
  for (const bool shared : {false, true}) {
    const FragmentOuter::Staged staged = Make("eager", 0.5, shared).Stage();
    EXPECT_EQ(staged.base, std::vector<float>{8.0f});
    // rate * (1 + momentum) * lambda.
    EXPECT_EQ(staged.coefficient, 0.375f);
    EXPECT_EQ(staged.lambda, 0.5f);
  }
}

TEST(FragmentOuterTest, OwnMomentumTakesTheStepsStillOnTheirWay) {
  FragmentOuter outer = Make("eager", 0.5, false);
  outer.Contribute(Own(0, 0.5f, 4.0f));
  // q = 0.5*4 = 2; off = 2 + 0.5*2 = 3; base = 8 - 0.5*(3 + 0.25*2) = 6.25.
  EXPECT_EQ(outer.Stage().base, std::vector<float>{6.25f});
  // The average 3 merged it: b = 3, s = 8 - 0.5*(3 + 1.5) = 5.75; l = 0.5*4 = 2; base = 5.75 - 0.5*0.25*2 = 5.5.
  const std::vector<OwnSettlement> settled = {Settle(0, true)};
  ASSERT_TRUE(outer.Apply(kScalars, {3.0f}, settled).ok());
  EXPECT_EQ(outer.Stage().base, std::vector<float>{5.5f});
  EXPECT_TRUE(outer.unsettled().empty());
}

TEST(FragmentOuterTest, SharedMomentumStepsOnACopyOfTheConsensus) {
  FragmentOuter outer = Make("eager", 0.5, true);
  ASSERT_TRUE(outer.Apply(kScalars, {3.0f}, {}).ok());  // b = 3, s = 5.75.
  outer.Contribute(Own(1, 0.5f, 4.0f));
  // g = 2: b = 1.5 + 2 = 3.5; s = 5.75 - 0.5*(2 + 1.75) = 3.875; g = 0: s = 3.875 - 0.5*0.25*3.5 = 3.4375.
  EXPECT_EQ(outer.Stage().base, std::vector<float>{3.4375f});
  EXPECT_EQ(outer.consensus().parameters()[0], 5.75f);
}

TEST(FragmentOuterTest, DroppedContributionAddsNothing) {
  FragmentOuter outer = Make("eager", 0.5, false);
  outer.Contribute(Own(0, 0.5f, 4.0f));
  const std::vector<OwnSettlement> settled = {Settle(0, false)};
  ASSERT_TRUE(outer.Apply(kScalars, {3.0f}, settled).ok());
  EXPECT_TRUE(outer.unsettled().empty());
  EXPECT_EQ(outer.Stage().base, std::vector<float>{5.75f});
}

TEST(FragmentOuterTest, SettlementOfOtherBytesOrRoundsTouchesNothing) {
  FragmentOuter outer = Make("eager", 0.5, false);
  outer.Contribute(Own(1, 0.5f, 4.0f));
  const std::vector<OwnSettlement> settled = {Settle(0, true),
                                              {.round = 1, .digest = {7, 7}, .merged = true, .weight = 1}};
  ASSERT_TRUE(outer.Apply(kScalars, {0.0f}, settled).ok());
  EXPECT_EQ(outer.unsettled().size(), 1u);
  EXPECT_EQ(outer.Stage().base, std::vector<float>{6.25f});
}

// As when the coordinator did not take round 0 any more because round 1 had overtaken it.
TEST(FragmentOuterTest, ContributionThatANewerOneOvertookLeavesWithIt) {
  FragmentOuter outer = Make("eager", 0.5, false);
  outer.Contribute(Own(0, 0.5f, 64.0f));
  outer.Contribute(Own(1, 0.5f, 4.0f));
  outer.Contribute(Own(2, 0.5f, 4.0f));
  const std::vector<OwnSettlement> settled = {Settle(1, true)};
  ASSERT_TRUE(outer.Apply(kScalars, {0.0f}, settled).ok());
  ASSERT_EQ(outer.unsettled().size(), 1u);
  // l = 0.5*4 = 2; q = 0.5*2 + 2 = 3; off = 2 + 0.5*3 = 3.5; base = 8 - 0.5*(3.5 + 0.25*3) = 5.875.
  EXPECT_EQ(outer.Stage().base, std::vector<float>{5.875f});
}

TEST(FragmentOuterTest, ShareFollowsTheParticipatingWeight) {
  FragmentOuter outer = Make("eager", std::nullopt, false);
  EXPECT_EQ(outer.Stage().lambda, 0.5f);
  StepScalars more = kScalars;
  more.participating_weight = 4;
  ASSERT_TRUE(outer.Apply(more, {0.0f}, {}).ok());
  EXPECT_EQ(outer.Stage().lambda, 0.25f);
  more.participating_weight = 0;
  ASSERT_TRUE(outer.Apply(more, {0.0f}, {}).ok());
  EXPECT_EQ(outer.Stage().lambda, 0.25f);
}

// As with weights by tokens, where nobody knows the worker's before a global delta tells.
TEST(FragmentOuterTest, ShareFollowsTheWeightOfTheNewestMergedContribution) {
  FragmentOuter outer({.method = FindMethod("eager"),
                       .lookahead = {.lambda = std::nullopt},
                       .next_scalars = kScalars,
                       .weights = Weights::kByTokens,
                       .workers = 4},
                      Consensus(FindOuterOptimizer("nesterov"), {8.0f}));
  EXPECT_EQ(outer.Stage().lambda, 0.25f);
  StepScalars tokens = kScalars;
  tokens.participating_weight = 4096;
  ASSERT_TRUE(outer.Apply(tokens, {0.0f}, {}).ok());
  EXPECT_EQ(outer.Stage().lambda, 0.25f);
  outer.Contribute(Own(1, 0.25f, 4.0f));
  std::vector<OwnSettlement> settled = {Settle(1, true)};
  settled[0].weight = 512;
  ASSERT_TRUE(outer.Apply(tokens, {0.0f}, settled).ok());
  EXPECT_EQ(outer.Stage().lambda, 0.125f);
}

TEST(FragmentOuterTest, SgdLooksAheadWithoutMomentum) {
  for (const bool shared : {false, true}) {
    FragmentOuter outer = Make("eager", 1.0, shared, "sgd", {.rate = 0.5f, .momentum = 0, .participating_weight = 1});
    outer.Contribute(Own(0, 1.0f, 4.0f));
    EXPECT_EQ(outer.Stage().base, std::vector<float>{6.0f});
    EXPECT_EQ(outer.Stage().coefficient, 0.5f);
  }
}

TEST(FragmentOuterTest, BlendStepsOnItsOwnSharePrivately) {
  FragmentOuter outer = Make("blend", std::nullopt, false);
  EXPECT_EQ(outer.Stage().lambda, 0.5f);
  EXPECT_EQ(outer.Stage().coefficient, 0.375f);
  outer.Contribute(Own(0, 0.5f, 4.0f));
  EXPECT_EQ(outer.Stage().base, std::vector<float>{6.25f});
  FragmentOuter dropped = outer;
  // Private: g = 0.5*3 + 0.5*4 = 3.5; b = 3.5; s = 8 - 0.5*(3.5 + 1.75) = 5.375; l = 2; base = 5.375 - 0.5*0.25*2.
  const std::vector<OwnSettlement> merged = {Settle(0, true)};
  ASSERT_TRUE(outer.Apply(kScalars, {3.0f}, merged).ok());
  EXPECT_EQ(outer.Stage().base, std::vector<float>{5.125f});
  EXPECT_EQ(outer.consensus().parameters()[0], 5.75f);
  // g = 0.5*3; s = 8 - 0.5*(1.5 + 0.75).
  const std::vector<OwnSettlement> not_merged = {Settle(0, false)};
  ASSERT_TRUE(dropped.Apply(kScalars, {3.0f}, not_merged).ok());
  EXPECT_EQ(dropped.Stage().base, std::vector<float>{6.875f});
  outer.Resync(Consensus(FindOuterOptimizer("nesterov"), 5, {1.0f}, {{0.0f}}), kScalars, 4);
  EXPECT_EQ(outer.Stage().base, std::vector<float>{1.0f});
}

// Adagrad without momentum: v = v + g^2; s = s - g / (sqrt(v) + 1).
TEST(FragmentOuterTest, OptimizerThatIsNotLinearTakesItsLastStepAtTheBoundary) {
  FragmentOuter outer = Make("eager", 0.5, true, "adagrad", {.rate = 1, .participating_weight = 2, .epsilon = 1});
  outer.Contribute(Own(0, 0.5f, 6.0f));
  const FragmentOuter::Staged staged = outer.Stage();
  // g = 3, v = 9: s = 8 - 3/4. Without a contribution it stays there.
  EXPECT_EQ(staged.base, std::vector<float>{7.25f});
  EXPECT_EQ(staged.lambda, 0.5f);
  // g = 4, v = 25.
  std::vector<float> theta(1);
  staged.LookAhead({8.0f}, absl::MakeSpan(theta));
  EXPECT_FLOAT_EQ(theta[0], 7.25f - 4.0f / 6.0f);
  EXPECT_EQ(outer.consensus().parameters()[0], 8.0f);
}

TEST(FragmentOuterTest, LookAheadMayOverwriteTheOuterGradient) {
  for (const char* optimizer : {"nesterov", "adam"}) {
    const FragmentOuter outer =
        Make("eager", 0.5, true, optimizer, {.rate = 1, .participating_weight = 2, .epsilon = 1});
    std::vector<float> apart(1);
    std::vector<float> same = {4.0f};
    outer.Stage().LookAhead(same, absl::MakeSpan(apart));
    outer.Stage().LookAhead(same, absl::MakeSpan(same));
    EXPECT_EQ(same, apart) << optimizer;
  }
}

TEST(FragmentOuterTest, ResyncSettlesUpToTheMarkAndForgetsOwnMomentum) {
  FragmentOuter outer = Make("eager", 0.5, false);
  outer.Contribute(Own(0, 0.5f, 4.0f));
  outer.Contribute(Own(1, 0.5f, 4.0f));
  const std::vector<OwnSettlement> settled = {Settle(0, true)};
  ASSERT_TRUE(outer.Apply(kScalars, {3.0f}, settled).ok());
  outer.Resync(Consensus(FindOuterOptimizer("nesterov"), 5, {1.0f}, {{0.0f}}), kScalars, 1);
  EXPECT_EQ(outer.Stage().base, std::vector<float>{1.0f});
  EXPECT_EQ(outer.Stage().version, 5);
}

TEST(FragmentOuterTest, BadGlobalDeltaChangesNothing) {
  FragmentOuter outer = Make("eager", 0.5, false);
  EXPECT_EQ(outer.Apply(kScalars, {1.0f, 2.0f}, {}).code(), absl::StatusCode::kInvalidArgument);
  for (const StepScalars& bad :
       {StepScalars{.rate = -1, .momentum = 0, .participating_weight = 1},
        StepScalars{.rate = std::numeric_limits<float>::infinity(), .momentum = 0, .participating_weight = 1},
        StepScalars{.rate = 1, .momentum = 1, .participating_weight = 1},
        StepScalars{.rate = 1, .momentum = 0, .participating_weight = -1}}) {
    EXPECT_EQ(outer.Apply(bad, {1.0f}, {}).code(), absl::StatusCode::kInvalidArgument);
  }
  for (const double weight : {0.0, -1.0, std::numeric_limits<double>::infinity()}) {
    std::vector<OwnSettlement> settled = {Settle(0, true)};
    settled[0].weight = weight;
    EXPECT_EQ(outer.Apply(kScalars, {1.0f}, settled).code(), absl::StatusCode::kInvalidArgument) << weight;
  }
  EXPECT_EQ(outer.consensus().version(), 0);
  EXPECT_EQ(outer.Stage().base, std::vector<float>{8.0f});
}

// LookAhead() of own momentum: q = l; for each d: q = mu*q + lambda*d, off += lambda*d + mu*q; theta = s - eta*off.
TEST(FragmentOuterLookAheadTest, StepsOverWhatIsUnsettledAndNothingElse) {
  const StepScalars scalars{.rate = 0.5F, .momentum = 0.5F, .participating_weight = 2};
  const FragmentOuter::Options options{
      .method = FindMethod("eager"), .lookahead = {.lambda = 1.0}, .next_scalars = scalars, .workers = 2};
  FragmentOuter outer(
      options,
      {.consensus = Consensus(FindOuterOptimizer("nesterov"), {8}), .next_scalars = scalars, .own_momentum = {4}});
  EXPECT_EQ(outer.LookAhead(), (std::vector<float>{8}));  // Nothing is on its way, whatever the momentum.
  outer.Contribute({.round = 0, .lambda = 0.5F, .decoded = {2}});
  // q = 0.5 * 4 + 0.5 * 2 = 3 ; off = 1 + 0.5 * 3 = 2.5 ; theta = 8 - 0.5 * 2.5.
  EXPECT_EQ(outer.LookAhead(), (std::vector<float>{6.75F}));
  const FragmentOuter again(options, outer.Save());
  EXPECT_EQ(again.LookAhead(), (std::vector<float>{6.75F}));
  EXPECT_EQ(again.Stage().base, outer.Stage().base);
}

// Shared momentum: x takes an outer step with g = lambda*d: b = mu*b + g, s = s - eta*(g + mu*b).
TEST(FragmentOuterLookAheadTest, TakesSharedOuterSteps) {
  const StepScalars scalars{.rate = 0.5F, .momentum = 0.5F, .participating_weight = 2};
  const FragmentOuter::Options options{.method = FindMethod("eager"),
                                       .lookahead = {.lambda = 1.0, .shared_momentum = true},
                                       .next_scalars = scalars,
                                       .workers = 2};
  FragmentOuter outer(options,
                      {.consensus = Consensus(FindOuterOptimizer("nesterov"), 3, {8}, {{4}}), .next_scalars = scalars});
  EXPECT_EQ(outer.LookAhead(), (std::vector<float>{8}));
  outer.Contribute({.round = 3, .lambda = 0.5F, .decoded = {2}});
  // g = 1 ; b = 0.5 * 4 + 1 = 3 ; s = 8 - 0.5 * (1 + 0.5 * 3).
  EXPECT_EQ(outer.LookAhead(), (std::vector<float>{6.75F}));
}

}  // namespace
}  // namespace diloco
