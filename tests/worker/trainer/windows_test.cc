#include "worker/trainer/windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

namespace diloco {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(WindowsTest, LastShareIsHeldOut) {
  const DataSplit split = SplitData(1019, 0.05);
  EXPECT_EQ(split.training.begin, 0);
  EXPECT_EQ(split.training.end, 969);
  EXPECT_EQ(split.held_out.begin, 969);
  EXPECT_EQ(split.held_out.end, 1019);
  EXPECT_EQ(SplitData(1000, 0).held_out.size(), 0);
  EXPECT_EQ(SplitData(10, 0.05).held_out.size(), 0);
}

TEST(WindowsTest, AWindowNeedsOneTokenMoreThanTheSequence) {
  EXPECT_FALSE((TokenRange{0, 0}.Fits(8)));
  EXPECT_FALSE((TokenRange{0, 8}.Fits(8)));
  EXPECT_TRUE((TokenRange{0, 9}.Fits(8)));
  EXPECT_EQ(TrainingWindow({5, 14}, 8, 1, "east", 0, 0), 5);
}

TEST(WindowsTest, TrainingWindowsCoverTheRangeEvenly) {
  // 100 windows lie in the range; 20,000 draws give each 200 on average, with a standard deviation of 14.
  std::vector<int> hits(100);
  for (int64_t step = 0; step < 1000; ++step) {
    for (int64_t index = 0; index < 20; ++index) {
      const int64_t start = TrainingWindow({1000, 1116}, 16, 7, "east", step, index);
      ASSERT_GE(start, 1000);
      ASSERT_LT(start, 1100);
      ++hits[static_cast<size_t>(start - 1000)];
    }
  }
  for (const int count : hits) {
    EXPECT_GT(count, 200 - 85);
    EXPECT_LT(count, 200 + 85);
  }
}

TEST(WindowsTest, TrainingWindowFollowsFromEachArgument) {
  const TokenRange range{0, int64_t{1} << 40};
  const std::set<int64_t> starts = {
      TrainingWindow(range, 8, 1, "east", 3, 4), TrainingWindow(range, 8, 2, "east", 3, 4),
      TrainingWindow(range, 8, 1, "west", 3, 4), TrainingWindow(range, 8, 1, "east", 4, 4),
      TrainingWindow(range, 8, 1, "east", 3, 5), TrainingWindow(range, 8, 1, "east", 4, 3)};
  EXPECT_EQ(starts.size(), 6u);
  EXPECT_EQ(TrainingWindow(range, 8, 1, "east", 3, 4), TrainingWindow(range, 8, 1, "east", 3, 4));
  // Starts beyond 32 bits occur.
  EXPECT_GT(*starts.rbegin(), int64_t{1} << 33);
}

TEST(WindowsTest, EvaluationWindowsAreEvenAndPredictNothingTwice) {
  EXPECT_THAT(EvaluationWindows({100, 201}, 10, 4), ElementsAre(100, 130, 160, 190));
  // Ten windows of ten predicted tokens are all that 101 tokens have.
  EXPECT_THAT(EvaluationWindows({0, 101}, 10, 64), ElementsAre(0, 10, 20, 30, 40, 50, 60, 70, 80, 90));
  EXPECT_THAT(EvaluationWindows({0, 11}, 10, 64), ElementsAre(0));
  EXPECT_THAT(EvaluationWindows({0, 10}, 10, 64), IsEmpty());
  EXPECT_THAT(EvaluationWindows({0, 0}, 10, 64), IsEmpty());
}

}  // namespace
}  // namespace diloco
