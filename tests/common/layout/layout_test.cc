#include "common/layout/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/limits.h"

namespace diloco {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorSpec Tensor(std::string name, std::vector<int64_t> shape, int layer = -1) {
  return {.name = std::move(name), .shape = std::move(shape), .layer = layer};
}

// Lone tensors of these sizes.
std::vector<TensorSpec> Sizes(const std::vector<int64_t>& sizes) {
  std::vector<TensorSpec> tensors;
  for (const int64_t size : sizes) tensors.push_back(Tensor("t" + std::to_string(tensors.size()), {size}));
  return tensors;
}

std::vector<int64_t> FragmentSizes(const Layout& layout) {
  std::vector<int64_t> sizes;
  for (const FragmentRange& range : layout.fragments()) sizes.push_back(range.count);
  return sizes;
}

std::string ErrorOf(std::vector<TensorSpec> tensors, int fragments = 1) {
  const absl::StatusOr<Layout> layout = Layout::Cut(std::move(tensors), {.count = fragments});
  EXPECT_EQ(layout.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(layout.status().message());
}

// What holds of every layout, whatever the cut.
void ExpectConsistent(const Layout& layout) {
  int64_t offset = 0;
  int fragment = 0;
  ASSERT_EQ(layout.placements().size(), layout.tensors().size());
  for (size_t i = 0; i < layout.placements().size(); ++i) {
    const TensorPlacement& placement = layout.placements()[i];
    EXPECT_EQ(placement.tensor, static_cast<int>(i));
    EXPECT_EQ(placement.offset, offset);
    EXPECT_EQ(placement.count, layout.tensors()[i].ElementCount());
    EXPECT_TRUE(placement.fragment == fragment || placement.fragment == fragment + 1);
    fragment = placement.fragment;
    const FragmentRange& range = layout.fragments()[static_cast<size_t>(fragment)];
    EXPECT_GE(placement.offset, range.offset);
    EXPECT_LE(placement.offset + placement.count, range.offset + range.count);
    offset += placement.count;
  }
  EXPECT_EQ(offset, layout.element_count());
  EXPECT_EQ(fragment + 1, layout.fragment_count());
  offset = 0;
  for (const FragmentRange& range : layout.fragments()) {
    EXPECT_EQ(range.offset, offset);
    offset += range.count;
    EXPECT_TRUE(range.count > 0 || layout.element_count() == 0);
  }
  EXPECT_EQ(offset, layout.element_count());
}

// Largest fragment of the best cut of sizes[first..] into at most `runs` runs, by trying every cut.
int64_t BestLargest(const std::vector<int64_t>& sizes, size_t first, int runs) {
  int64_t best = INT64_MAX;
  int64_t run = 0;
  for (size_t end = first + 1; end <= sizes.size(); ++end) {
    run += sizes[end - 1];
    if (end == sizes.size()) {
      best = std::min(best, run);
    } else if (runs > 1) {
      best = std::min(best, std::max(run, BestLargest(sizes, end, runs - 1)));
    }
  }
  return best;
}

TEST(LayoutTest, LargestFragmentIsAsSmallAsAnyCutAllows) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int64_t> sizes(1 + random() % 9);
    for (int64_t& size : sizes) size = random() % 5 == 0 ? 0 : static_cast<int64_t>(random() % 50);
    const int fragments = 1 + static_cast<int>(random() % 6);
    const absl::StatusOr<Layout> layout = Layout::Cut(Sizes(sizes), {.count = fragments});
    ASSERT_TRUE(layout.ok()) << layout.status();
    ExpectConsistent(*layout);
    const std::vector<int64_t> cut = FragmentSizes(*layout);
    EXPECT_EQ(*std::max_element(cut.begin(), cut.end()), BestLargest(sizes, 0, fragments))
        << testing::PrintToString(sizes) << " into " << fragments;
    const auto filled = std::count_if(sizes.begin(), sizes.end(), [](int64_t size) { return size > 0; });
    EXPECT_EQ(layout->fragment_count(), std::clamp<int64_t>(filled, 1, fragments));
  }
}

TEST(LayoutTest, LayersStayWhole) {
  // Units: 10, layer 0 (3 + 3 + 4), 7, layer 1 (1).
  const auto layout = Layout::Cut({Tensor("embedding", {10}), Tensor("a", {3}, 0), Tensor("b", {3}, 0),
                                   Tensor("c", {2, 2}, 0), Tensor("norm", {7}), Tensor("d", {}, 1)},
                                  {.count = 3});
  ASSERT_TRUE(layout.ok()) << layout.status();
  ExpectConsistent(*layout);
  EXPECT_THAT(FragmentSizes(*layout), ElementsAre(10, 10, 8));
  EXPECT_EQ(layout->placements()[3].fragment, 1);
  EXPECT_EQ(layout->placements()[3].offset, 16);
}

TEST(LayoutTest, NeighbouringLayersAreApart) {
  const auto layout = Layout::Cut({Tensor("a", {5}, 0), Tensor("b", {5}, 1)}, {.count = 8});
  ASSERT_TRUE(layout.ok());
  EXPECT_THAT(FragmentSizes(*layout), ElementsAre(5, 5));
}

TEST(LayoutTest, ScalarsAndEmptyTensorsAreLegal) {
  const auto layout = Layout::Cut(
      {Tensor("rows", {0, 64}), Tensor("scalar", {}), Tensor("none", {3, 0}), Tensor("w", {2, 3}), Tensor("tail", {0})},
      {.count = 8});
  ASSERT_TRUE(layout.ok()) << layout.status();
  ExpectConsistent(*layout);
  EXPECT_THAT(FragmentSizes(*layout), ElementsAre(1, 6));
}

TEST(LayoutTest, ModelWithoutElementsHasOneEmptyFragment) {
  const auto layout = Layout::Cut({Tensor("a", {0}), Tensor("b", {0, 5}, 0)}, {.count = 4});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_THAT(FragmentSizes(*layout), ElementsAre(0));
  EXPECT_EQ(layout->element_count(), 0);
}

TEST(LayoutTest, HugeExtentsBesideZeroAreZeroElements) {
  const auto layout = Layout::Cut({Tensor("a", {int64_t{1} << 40, int64_t{1} << 40, 0})}, {.count = 1});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->element_count(), 0);
}

TEST(LayoutTest, DigestCoversEveryPartOfTheLayout) {
  const std::vector<TensorSpec> tensors = {Tensor("a", {2, 3}), Tensor("b", {6}), Tensor("c", {6})};
  std::vector<Digest> digests = {Layout::Cut(tensors, {.count = 3})->digest(),
                                 Layout::Cut(tensors, {.count = 2})->digest()};
  EXPECT_EQ(digests[0], Layout::Cut(tensors, {.count = 3})->digest());
  EXPECT_EQ(digests[0], Layout::Cut(tensors, {.count = 9})->digest()) << "the same cut";

  std::vector<std::vector<TensorSpec>> others(7, tensors);
  others[0][0].name = "A";
  others[1][0].shape = {3, 2};
  others[2][0].shape = {6};
  others[3][0].decay = true;
  others[4][0].layer = 0;
  std::swap(others[5][1], others[5][2]);
  others[6][0].shape = {2, 3, 1};
  for (const std::vector<TensorSpec>& other : others) digests.push_back(Layout::Cut(other, {.count = 3})->digest());
  std::sort(digests.begin(), digests.end());
  EXPECT_EQ(std::unique(digests.begin(), digests.end()), digests.end());
}

// Written out by hand, so that a change of the serialisation, which would split a cluster of two versions, is seen.
TEST(LayoutTest, DigestIsOverTheDocumentedBytes) {
  const auto integer = [](int64_t value) {
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
    return bytes;
  };
  std::vector<TensorSpec> tensors = {Tensor("w", {2, 3}, 4), Tensor("ab", {})};
  tensors[0].decay = true;
  EXPECT_EQ(Layout::Cut(tensors, {.count = 2})->digest(),
            DigestOf(integer(2) +  //
                     integer(1) + "w" + integer(2) + integer(2) + integer(3) + integer(4) + integer(1) + integer(0) +
                     integer(2) + "ab" + integer(0) + integer(-1) + integer(0) + integer(1)));
}

TEST(LayoutTest, DecayedRangesJoinNeighboursWithinAFragment) {
  std::vector<TensorSpec> tensors = {Tensor("a", {4}, 0), Tensor("b", {2}, 0), Tensor("c", {3}, 0),
                                     Tensor("d", {5}, 1), Tensor("e", {1}, 1), Tensor("f", {7}, 1)};
  for (const size_t i : {1, 2, 3, 5}) tensors[i].decay = true;
  const Layout layout = Layout::Cut(tensors, {.count = 2}).value();
  EXPECT_EQ(layout.DecayedRanges(0), (std::vector<ElementRange>{{.offset = 4, .count = 5}}));
  EXPECT_EQ(layout.DecayedRanges(1), (std::vector<ElementRange>{{.offset = 0, .count = 5}, {.offset = 6, .count = 7}}));
}

TEST(LayoutTest, RefusesWhatItCannotCut) {
  EXPECT_THAT(ErrorOf({}), HasSubstr("0 tensors"));
  EXPECT_THAT(ErrorOf({Tensor("a", {1})}, 0), HasSubstr("0 fragments: use 1 to 1024"));
  EXPECT_THAT(ErrorOf({Tensor("a", {1})}, kMaxFragments + 1), HasSubstr("1025 fragments"));
  EXPECT_THAT(ErrorOf({Tensor("a", {1}), Tensor("b", {1}), Tensor("a", {2})}),
              HasSubstr("two tensors are named \"a\""));
  EXPECT_THAT(ErrorOf({Tensor("", {1})}), HasSubstr("tensor name \"\""));
  EXPECT_THAT(ErrorOf({Tensor("a\xC0\xA7", {1})}), HasSubstr("a\\xc0\\xa7"));
  EXPECT_THAT(ErrorOf({Tensor(std::string(kMaxTensorNameBytes + 1, 'x'), {1})}), HasSubstr("1 to 256 bytes"));
  EXPECT_THAT(ErrorOf({Tensor("__metadata__", {1})}), HasSubstr("reserve"));
  EXPECT_THAT(ErrorOf({Tensor("a", {2, -3})}), HasSubstr("extent -3"));
  EXPECT_THAT(ErrorOf({Tensor("a", {-3, 0})}), HasSubstr("extent -3"));
  EXPECT_THAT(ErrorOf({Tensor("a", {1}, -2)}), HasSubstr("layer -2"));
  EXPECT_THAT(ErrorOf({Tensor("a", {int64_t{1} << 32, int64_t{1} << 32})}), HasSubstr("more than"));
  EXPECT_THAT(ErrorOf({Tensor("a", {kMaxElements}), Tensor("b", {1})}), HasSubstr("the model has more than"));
  EXPECT_THAT(ErrorOf({Tensor("a", {1}, 0), Tensor("b", {1}, 1), Tensor("c", {1}, 0)}),
              HasSubstr("\"c\": the tensors of layer 0 are not consecutive"));
  EXPECT_THAT(ErrorOf({Tensor("a", {1}, 0), Tensor("b", {1}), Tensor("c", {1}, 0)}), HasSubstr("not consecutive"));
  EXPECT_THAT(ErrorOf(std::vector<TensorSpec>(kMaxTensors + 1, Tensor("a", {1}))), HasSubstr("65537 tensors"));
}

TEST(LayoutTest, TakesTheLargestModels) {
  std::vector<int64_t> sizes(kMaxTensors, kMaxElements / kMaxTensors);
  const auto layout = Layout::Cut(Sizes(sizes), {.count = kMaxFragments});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->element_count(), kMaxElements);
  EXPECT_EQ(layout->fragment_count(), kMaxFragments);
  for (const FragmentRange& range : layout->fragments()) EXPECT_EQ(range.count, kMaxElements / kMaxFragments);
}

}  // namespace
}  // namespace diloco
