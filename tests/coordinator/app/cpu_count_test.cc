#include "coordinator/app/cpu_count.h"

#include <gtest/gtest.h>
#include <sched.h>

namespace diloco {
namespace {

TEST(CpuCountTest, ReadsAQuota) {
  EXPECT_EQ(ParseCpuMax("200000 100000\n"), 2.0);
  EXPECT_EQ(ParseCpuMax("50000 100000\n"), 0.5);
}

TEST(CpuCountTest, NoQuotaAndAnyOtherTextGiveNone) {
  for (const char* text :
       {"max 100000\n", "", "200000", "200000 0", "0 100000", "-1 100000", "nan 100000", "a b", "1 2 3"}) {
    EXPECT_EQ(ParseCpuMax(text), std::nullopt) << text;
  }
}

TEST(CpuCountTest, FollowsTheAffinity) {
  EXPECT_GE(UsableCpus(), 1);
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(UsableCpus(), 1);
  sched_setaffinity(0, sizeof(before), &before);
}

}  // namespace
}  // namespace diloco
