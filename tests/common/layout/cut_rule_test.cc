#include "common/layout/cut_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/layout/layout.h"

namespace diloco {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An embedding, `layers` layers of two tensors, and a final norm, of 5, 3 + 2 and 4 elements.
std::vector<TensorSpec> Model(int layers) {
  std::vector<TensorSpec> tensors = {{.name = "embedding", .shape = {5}}};
  for (int layer = 0; layer < layers; ++layer) {
    tensors.push_back({.name = "a" + std::to_string(layer), .shape = {3}, .layer = layer});
    tensors.push_back({.name = "b" + std::to_string(layer), .shape = {2}, .layer = layer});
  }
  tensors.push_back({.name = "norm", .shape = {4}});
  return tensors;
}

// The fragment of the embedding, of each layer, and of the final norm.
std::vector<int> FragmentsOf(const std::vector<TensorSpec>& tensors, const CutRule& rule) {
  const auto fragments = AssignFragments(tensors, rule);
  EXPECT_TRUE(fragments.ok()) << fragments.status();
  std::vector<int> units;
  for (size_t t = 0; fragments.ok() && t < tensors.size(); ++t) {
    if (tensors[t].name[0] == 'b') {
      EXPECT_EQ((*fragments)[t], units.back()) << "a layer stays whole";
    } else {
      units.push_back((*fragments)[t]);
    }
  }
  return units;
}

std::string ErrorOf(const std::vector<TensorSpec>& tensors, const CutRule& rule) {
  const auto fragments = AssignFragments(tensors, rule);
  EXPECT_EQ(fragments.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(fragments.status().message());
}

TEST(CutRuleTest, StridedFragmentsAreInterleavedAndLooseTensorsApart) {
  // Seven layers in threes: three fragments, of layers 0 3 6, 1 4 and 2 5.
  EXPECT_THAT(FragmentsOf(Model(7), {.layers_each = 3}), ElementsAre(0, 1, 2, 3, 1, 2, 3, 1, 0));
}

TEST(CutRuleTest, SequentialFragmentsAreConsecutive) {
  EXPECT_THAT(FragmentsOf(Model(7), {.layers_each = 3, .strided = false}), ElementsAre(0, 1, 1, 1, 2, 2, 2, 3, 0));
}

TEST(CutRuleTest, WrittenOutFragments) {
  EXPECT_THAT(FragmentsOf(Model(4), {.layers = {{0, 3}, {2, 1}}}), ElementsAre(0, 1, 2, 2, 1, 0));
}

TEST(CutRuleTest, ModelOfLayersOnlyHasNoFragmentForTheRest) {
  std::vector<TensorSpec> tensors = Model(2);
  tensors.erase(tensors.begin());
  tensors.back().shape = {0};
  EXPECT_THAT(FragmentsOf(tensors, {.layers_each = 1}), ElementsAre(0, 1, 0));
}

TEST(CutRuleTest, ModelWithoutLayersIsOneFragment) {
  EXPECT_THAT(FragmentsOf(Model(0), {.layers_each = 3}), ElementsAre(0, 0));
}

TEST(CutRuleTest, RefusesWhatDoesNotCoverTheModel) {
  EXPECT_EQ(ErrorOf(Model(3), {.layers = {{0}, {2}}}),
            "fragments do not cover the model: layer 1 is in none of them; add it to one");
  EXPECT_EQ(ErrorOf(Model(3), {.layers = {{0, 1}, {2, 1}}}), "fragments name layer 1 twice");
  EXPECT_EQ(ErrorOf(Model(3), {.layers = {{0, 1}, {2, 3}}}), "fragments name layer 3, which the model lacks");
  EXPECT_EQ(ErrorOf(Model(3), {.layers = {{0, 1, 2}, {}}}), "fragment 2 has no elements");
}

TEST(CutRuleTest, RefusesLayersThatAreNotConsecutive) {
  std::vector<TensorSpec> tensors = Model(2);
  std::swap(tensors[1], tensors[3]);
  EXPECT_THAT(ErrorOf(tensors, {.layers_each = 1}), HasSubstr("not consecutive"));
}

// Fragment-major, whatever the order of the tensors.
TEST(CutRuleTest, LayoutPlacesTensorsByFragment) {
  const auto layout = Layout::Cut(Model(3), {.layers = {{0, 2}, {1}}});
  ASSERT_TRUE(layout.ok()) << layout.status();
  std::vector<int64_t> offsets;
  for (const TensorPlacement& placement : layout->placements()) offsets.push_back(placement.offset);
  // 5 + 4 loose elements, then layers 0 and 2, then layer 1.
  EXPECT_THAT(offsets, ElementsAre(0, 9, 12, 19, 22, 14, 17, 5));
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const FragmentRange& range : layout->fragments()) ranges.emplace_back(range.offset, range.count);
  EXPECT_THAT(ranges, ElementsAre(std::pair(0, 9), std::pair(9, 10), std::pair(19, 5)));
}

}  // namespace
}  // namespace diloco
