#include "worker/sync/contribution_store.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace diloco {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ContributionStoreTest : public testing::Test {
 protected:
  ContributionStore store_{{.run_id = "run",
                            .worker_id = "east",
                            .incarnation = 9,
                            .layout_digest = {3, 4},
                            .codec = FindCodec("fp32"),
                            .chunk_bytes = 8}};
};

TEST_F(ContributionStoreTest, ChunksCarryTheEncodedBytesAndDescribeThemselves) {
  const std::vector<float> outer_gradient = {1, 2, 3, 4, 5};
  const ContributionStore::Contribution& contribution = store_.Add(7, 2, outer_gradient, 2);
  EXPECT_EQ(contribution.digest, DigestOf(contribution.encoded));
  std::string all;
  for (uint32_t i = 0; i < 3; ++i) {
    const v1::UploadRequest chunk = store_.Chunk(7, 2, i);
    EXPECT_EQ(chunk.run_id(), "run");
    EXPECT_EQ(chunk.worker_id(), "east");
    EXPECT_EQ(chunk.incarnation(), 9u);
    EXPECT_EQ(chunk.fragment(), 2u);
    EXPECT_EQ(chunk.round(), 7);
    EXPECT_EQ(chunk.layout_digest().value(), (Digest{3, 4}).Bytes());
    EXPECT_EQ(chunk.codec(), "fp32");
    EXPECT_EQ(chunk.element_count(), 5u);
    EXPECT_EQ(chunk.contribution_bytes(), 20u);
    EXPECT_EQ(chunk.chunk_bytes(), 8u);
    EXPECT_EQ(chunk.contribution_digest().value(), contribution.digest.Bytes());
    EXPECT_EQ(chunk.weight(), 2);
    EXPECT_EQ(chunk.chunk_index(), i);
    EXPECT_EQ(chunk.crc32c(), ComputeCrc32c(chunk.payload()).value);
    all += chunk.payload();
  }
  EXPECT_EQ(all, std::string(reinterpret_cast<const char*>(outer_gradient.data()), 20));
}

TEST(ContributionStoreRoundingTest, EachRoundOfEachFragmentHasItsOwnRandomBits) {
  const Codec& codec = *FindCodec("int4");
  const RoundingRule rule = {.stochastic = true, .seed = 5, .sender = "east"};
  ContributionStore store({.codec = &codec, .rounding = rule, .chunk_bytes = 33});
  const std::vector<float> outer_gradient(640, 0.3F);
  for (const auto& [round, fragment] : {std::pair(int64_t{1}, 0), std::pair(int64_t{2}, 0), std::pair(int64_t{1}, 1)}) {
    std::string expected(codec.encoded_bytes(640), '\0');
    codec.encode(outer_gradient, rule.For(round, fragment), absl::MakeSpan(expected));
    EXPECT_EQ(store.Add(round, fragment, outer_gradient, 1).encoded, expected);
  }
}

TEST_F(ContributionStoreTest, QueryHasNeitherPayloadNorChecksum) {
  store_.Add(7, 2, std::vector<float>{1}, 1);
  const v1::UploadRequest query = store_.Query(7, 2);
  EXPECT_TRUE(query.payload().empty());
  EXPECT_EQ(query.crc32c(), 0u);
  EXPECT_EQ(query.contribution_bytes(), 4u);
}

// In steps of bf16 between 1 and 2: 1 + 0.375 steps is sent as 1, and 0.375 are owed; the next is 1 + 0.25 steps.
TEST(ContributionStoreFeedbackTest, ResidualFollowsWhatBecameOfTheContribution) {
  constexpr float kStep = 1.0F / 128;
  const auto next = [](ContributionFate fate) {
    ContributionStore store({.codec = FindCodec("bf16"), .error_feedback = true, .chunk_bytes = 8});
    store.Add(0, 0, std::vector<float>{1 + 0.375F * kStep}, 1);
    store.Settle(0, 0, fate);
    store.Settle(0, 0, ContributionFate::kDropped);  // Held no more: nothing happens.
    float decoded = 0;
    FindCodec("bf16")->decode(store.Add(1, 0, std::vector<float>{1 + 0.25F * kStep}, 1).encoded, {&decoded, 1});
    return decoded;
  };
  EXPECT_EQ(next(ContributionFate::kMerged), 1 + kStep);  // 1 + 0.625 steps.
  EXPECT_EQ(next(ContributionFate::kRefused), 1);         // 1 + 0.25 steps.
  EXPECT_EQ(next(ContributionFate::kDropped), 2);         // 2 + 0.625 steps, which are twice as long there.
}

TEST(ContributionStoreFeedbackTest, EachFragmentHasItsOwn) {
  ContributionStore store({.codec = FindCodec("bf16"), .error_feedback = true, .chunk_bytes = 8});
  store.Add(0, 0, std::vector<float>{1 + 0.375F / 128}, 1);
  float decoded = 0;
  FindCodec("bf16")->decode(store.Add(0, 1, std::vector<float>{1 + 0.25F / 128}, 1).encoded, {&decoded, 1});
  EXPECT_EQ(decoded, 1);
}

TEST_F(ContributionStoreTest, HoldsUntilSettled) {
  store_.Add(8, 0, std::vector<float>{1}, 1);
  store_.Add(7, 0, std::vector<float>{1}, 1);
  store_.Add(7, 1, std::vector<float>{1}, 1);
  EXPECT_THAT(store_.Rounds(0), ElementsAre(7, 8));
  store_.Settle(7, 0, ContributionFate::kMerged);
  store_.Settle(7, 0, ContributionFate::kMerged);
  EXPECT_THAT(store_.Rounds(0), ElementsAre(8));
  EXPECT_THAT(store_.Rounds(1), ElementsAre(7));
  EXPECT_THAT(store_.Rounds(2), IsEmpty());
}

}  // namespace
}  // namespace diloco
