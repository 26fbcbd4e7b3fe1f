#include "common/outer/consensus.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/outer/method.h"

namespace diloco {
namespace {

TEST(ConsensusTest, CountsVersionsAndStepsState) {
  Consensus consensus(FindOuterOptimizer("nesterov"), {8.0f, 8.0f});
  EXPECT_EQ(consensus.version(), 0);
  const StepScalars scalars{.rate = 0.5f, .momentum = 0.5f, .participating_weight = 1};
  consensus.Apply(scalars, {2.0f, 0.0f});
  consensus.Apply(scalars, {0.0f, 0.0f});
  EXPECT_EQ(consensus.version(), 2);
  // First: b = 2, s = 8 - 0.5*3 = 6.5. Second: b = 1, s = 6.5 - 0.5*0.5 = 6.25.
  EXPECT_EQ(consensus.parameters()[0], 6.25f);
  EXPECT_EQ(consensus.state()[0][0], 1.0f);
  EXPECT_EQ(consensus.parameters()[1], 8.0f);
}

TEST(ConsensusTest, DigestCoversParametersThenState) {
  const Consensus consensus(FindOuterOptimizer("nesterov"), 3, {1.0f}, {{-2.0f}});
  EXPECT_EQ(consensus.ComputeDigest(), DigestOf(std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8)));
  EXPECT_EQ(consensus.version(), 3);
}

TEST(ConsensusTest, RestoredConsensusGoesOnWithTheSameBits) {
  const StepScalars scalars{.rate = 0.4f, .momentum = 0.9f, .participating_weight = 1};
  Consensus straight(FindOuterOptimizer("nesterov"), {0.1f, -0.7f, 3.0f});
  straight.Apply(scalars, {0.3f, 0.2f, -0.1f});
  Consensus restored(FindOuterOptimizer("nesterov"), straight.version(),
                     {straight.parameters().begin(), straight.parameters().end()}, {straight.state()[0]});
  straight.Apply(scalars, {0.5f, -0.2f, 0.7f});
  restored.Apply(scalars, {0.5f, -0.2f, 0.7f});
  EXPECT_EQ(straight.ComputeDigest(), restored.ComputeDigest());
}

TEST(ConsensusTest, DecayShrinksDecayedElementsBeforeTheStep) {
  const std::vector<ElementRange> decayed = {{.offset = 1, .count = 1}, {.offset = 3, .count = 2}};
  const StepScalars scalars{.rate = 1, .decay = 0.25f};
  for (const bool restored : {false, true}) {
    const OuterOptimizer* sgd = FindOuterOptimizer("sgd");
    Consensus consensus = restored ? Consensus(sgd, 4, {8.0f, 8.0f, 8.0f, 8.0f, 8.0f}, {}, decayed)
                                   : Consensus(sgd, {8.0f, 8.0f, 8.0f, 8.0f, 8.0f}, decayed);
    consensus.Apply(scalars, {1.0f, 1.0f, 1.0f, 1.0f, 1.0f});
    const std::vector<float> expected = {7.0f, 5.0f, 7.0f, 5.0f, 5.0f};
    EXPECT_EQ(std::vector<float>(consensus.parameters().begin(), consensus.parameters().end()), expected);
  }
}

TEST(MethodTest, TableHoldsThePublishedMethods) {
  ASSERT_NE(FindMethod("eager"), nullptr);
  EXPECT_EQ(FindMethod("eager")->anchor, Anchor::kOwn);
  EXPECT_EQ(FindMethod("eager")->default_max_late, 1);
  EXPECT_EQ(FindMethod("diloco")->overlap, Overlap::kNone);
  EXPECT_EQ(FindMethod("delayed")->overlap, Overlap::kRounds);
  EXPECT_EQ(FindMethod("eager2"), nullptr);
}

}  // namespace
}  // namespace diloco
