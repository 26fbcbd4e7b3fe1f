// Times worked out by hand; bytes and rates are small whole numbers.
#include "coordinator/plan/shared_link.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace diloco {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(SharedLinkTest, AWorkersTransfersGoOneAfterTheOther) {
  SharedLink link({{.workers = 1, .rate = 2}}, kInfinity);
  EXPECT_EQ(link.UntilNext(), kInfinity);
  link.Enqueue(0, 7, 10);
  link.Enqueue(0, 8, 4);
  EXPECT_DOUBLE_EQ(link.UntilNext(), 5);
  EXPECT_TRUE(link.Advance(3).empty());
  EXPECT_DOUBLE_EQ(link.UntilNext(), 2);
  const std::vector<SharedLink::Done> done = link.Advance(2);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].fragment, 7);
  EXPECT_DOUBLE_EQ(link.UntilNext(), 2);
  ASSERT_EQ(link.Advance(2).size(), 1u);
  EXPECT_EQ(link.UntilNext(), kInfinity);
}

// Of 6, the slow worker takes the 1 that its own link carries, and the other the rest.
TEST(SharedLinkTest, SharesEvenlyAsFarAsOwnLinksLet) {
  SharedLink link({{.workers = 1, .rate = 10}, {.workers = 1, .rate = 1}}, 6);
  link.Enqueue(0, 0, 10);
  link.Enqueue(1, 0, 10);
  EXPECT_DOUBLE_EQ(link.UntilNext(), 2);
  const std::vector<SharedLink::Done> done = link.Advance(2);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].group, 0u);
  EXPECT_DOUBLE_EQ(link.UntilNext(), 8);
}

// Three alike and one more share 8 evenly; when the three are done, the one has all of it.
TEST(SharedLinkTest, CountsEveryWorkerOfAGroup) {
  SharedLink link({{.workers = 3, .rate = kInfinity}, {.workers = 1, .rate = kInfinity}}, 8);
  link.Enqueue(0, 0, 2);
  link.Enqueue(1, 0, 10);
  EXPECT_DOUBLE_EQ(link.UntilNext(), 1);
  ASSERT_EQ(link.Advance(1).size(), 1u);
  EXPECT_DOUBLE_EQ(link.UntilNext(), 1);
}

TEST(SharedLinkTest, UnlimitedTakesNoTime) {
  SharedLink link({{.workers = 2, .rate = kInfinity}}, kInfinity);
  link.Enqueue(0, 0, 1e12);
  EXPECT_EQ(link.UntilNext(), 0);
  EXPECT_EQ(link.Advance(0).size(), 1u);
}

}  // namespace
}  // namespace diloco
