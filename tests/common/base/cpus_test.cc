#include "common/base/cpus.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <string>
#include <thread>

#include "tests/support/temp_folder.h"

namespace diloco {
namespace {

TEST(CpusTest, QuotaIsTheSmallestOfAGroupAndItsAncestors) {
  const testing::TempFolder root;
  root.Write("cpu.max", "max 100000\n");
  root.Write("pods/cpu.max", "150000 100000\n");
  root.Write("pods/one/cpu.max", "400000 100000\n");
  EXPECT_DOUBLE_EQ(internal::CgroupCpuQuota(root.path(), "0::/pods/one\n"), 1.5);
  EXPECT_DOUBLE_EQ(internal::CgroupCpuQuota(root.path(), "0::/other\n"), 0);
}

TEST(CpusTest, QuotaIsReadInVersionOne) {
  const testing::TempFolder root;
  root.Write("cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n");
  root.Write("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  root.Write("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root.Write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(internal::CgroupCpuQuota(root.path(), "4:memory:/job\n3:cpu,cpuacct:/job\n0::/\n"), 0.5);
}

TEST(CpusTest, NothingMountedIsNoQuota) {
  const testing::TempFolder root;
  EXPECT_DOUBLE_EQ(internal::CgroupCpuQuota(root.path(), "0::/a/b\n"), 0);
  EXPECT_DOUBLE_EQ(internal::CgroupCpuQuota(root.path(), ""), 0);
}

TEST(CpusTest, AffinityBoundsTheCount) {
  EXPECT_GE(UsableCpus(), 1);
  int in_thread = 0;
  // In a thread of its own, whose mask nothing else sees.
  std::thread([&in_thread] {
    cpu_set_t mask;
    ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
    for (int cpu = 0, kept = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &mask) && kept++ > 0) {
        CPU_CLR(cpu, &mask);
      }
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof(mask), &mask), 0);
    in_thread = UsableCpus();
  }).join();
  EXPECT_EQ(in_thread, 1);
}

}  // namespace
}  // namespace diloco
