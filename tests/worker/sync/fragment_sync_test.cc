#include "worker/sync/fragment_sync.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/worker/sync/published_delta.h"

namespace diloco {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr StepScalars kScalars{.rate = 0.5f, .momentum = 0.5f, .participating_weight = 2};

class FragmentSyncTest : public testing::Test {
 protected:
  FragmentSync::Options Options() const {
    return {.fragment = 3,
            .worker_id = "solo",
            .downlink = FindCodec("fp32"),
            .outer = {.method = FindMethod("eager"), .next_scalars = kScalars}};
  }
  GlobalDelta Next(std::vector<float> average, const std::vector<std::pair<int64_t, Digest>>& own = {}) {
    const PublishedDelta delta = PublishDelta(3, average, kScalars, own, &theirs_);
    return {delta.commit, delta.settled, delta.payload};
  }

  const OuterOptimizer* const nesterov_ = FindOuterOptimizer("nesterov");
  Consensus theirs_{nesterov_, {1, 2}};
  FragmentSync ours_{Options(), Consensus(nesterov_, {1, 2})};
};

TEST_F(FragmentSyncTest, HoldsAveragesBackUntilTheyMayBeApplied) {
  ours_.Hold(Next({1, 1}));
  ours_.Hold(Next({2, 0}));
  EXPECT_EQ(ours_.version(), 0);
  EXPECT_EQ(ours_.received(), 2);
  ASSERT_EQ(ours_.ApplyNext(), absl::OkStatus());
  EXPECT_EQ(ours_.version(), 1);
  // b = 1, s -= 0.5 * (1 + 0.5 * 1).
  EXPECT_THAT(ours_.consensus().parameters(), ElementsAre(0.25f, 1.25f));
  ASSERT_EQ(ours_.ApplyNext(), absl::OkStatus());
  EXPECT_EQ(ours_.digest(), theirs_.ComputeDigest());
  EXPECT_EQ(ours_.CheckFinal(theirs_.ComputeDigest()), absl::OkStatus());
}

TEST_F(FragmentSyncTest, AnotherConsensusNamesFragmentAndVersion) {
  ours_.Hold(Next({1, 1}));
  GlobalDelta second = Next({1, 1});
  second.commit.mutable_consensus_digest()->set_value(std::string(16, 'x'));
  ours_.Hold(second);
  ASSERT_EQ(ours_.ApplyNext(), absl::OkStatus());
  const absl::Status status = ours_.ApplyNext();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("fragment 3"), HasSubstr("version 1")));
  EXPECT_EQ(ours_.CheckFinal(Digest{1, 2}).code(), absl::StatusCode::kDataLoss);
}

TEST_F(FragmentSyncTest, DigestOfAnOlderVersionIsCheckedToo) {
  for (const bool right : {true, false}) {
    Consensus theirs(nesterov_, {1, 2});
    FragmentSync ours(Options(), theirs);
    const Digest at_zero = theirs.ComputeDigest();
    const PublishedDelta first = PublishDelta(3, {1, 1}, kScalars, {}, &theirs);
    PublishedDelta second = PublishDelta(3, {1, 1}, kScalars, {}, &theirs);
    second.commit.set_consensus_version(0);
    second.commit.mutable_consensus_digest()->set_value((right ? at_zero : Digest{1, 2}).Bytes());
    ours.Hold({first.commit, first.settled, first.payload});
    ours.Hold({second.commit, second.settled, second.payload});
    ASSERT_EQ(ours.ApplyNext(), absl::OkStatus());
    EXPECT_EQ(ours.ApplyNext().ok(), right);
  }
}

TEST_F(FragmentSyncTest, SettledContributionsLeaveTheLookAhead) {
  const Digest digest{1, 2};
  ours_.Contribute({.round = 0, .digest = digest, .lambda = 1, .decoded = {1, 1}});
  const std::vector<float> ahead = ours_.Stage().base;
  EXPECT_NE(ahead, (std::vector<float>{1, 2}));
  ours_.Hold(Next({1, 1}, {{0, digest}}));
  ASSERT_EQ(ours_.ApplyNext(), absl::OkStatus());
  // One worker, lambda 1: the average is what was looked ahead with.
  const std::vector<float> after = ours_.Stage().base;
  EXPECT_FLOAT_EQ(after[0], ahead[0]);
  EXPECT_FLOAT_EQ(after[1], ahead[1]);
}

TEST_F(FragmentSyncTest, ResyncDropsWhatWasHeldBack) {
  ours_.Hold(Next({1, 1}));
  Next({1, 1});
  Next({1, 1});
  ours_.Resync(theirs_, kScalars, 2);
  EXPECT_EQ(ours_.version(), 3);
  EXPECT_EQ(ours_.received(), 3);
  EXPECT_EQ(ours_.digest(), theirs_.ComputeDigest());
  ours_.Hold(Next({1, 1}));
  EXPECT_EQ(ours_.ApplyNext(), absl::OkStatus());
}

}  // namespace
}  // namespace diloco
