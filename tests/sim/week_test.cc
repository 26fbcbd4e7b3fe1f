// A week of simulated time with churn: what the cluster holds in memory and on disk does not grow.
#include <malloc.h>

#include <algorithm>
#include <cstdio>

#include "gtest/gtest.h"

#include "spdlog/spdlog.h"
#include "tests/sim/cluster.h"

namespace diloco::sim {
namespace {

size_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(WeekTest, MemoryAndJournalStayBounded) {
  spdlog::set_level(spdlog::level::off);
  Cluster cluster(WeekScenario(1));
  constexpr absl::Duration kDay = absl::Hours(24);
  constexpr int kDays = 8;
  size_t heap[kDays] = {};
  uint64_t journal[kDays] = {};
  uint64_t folder[kDays] = {};
  absl::Duration next = absl::ZeroDuration();
  cluster.Run([&] {
    if (cluster.loop().Elapsed() < next) return;
    next = next + absl::Minutes(10);
    const auto day = static_cast<size_t>(std::min<int64_t>(kDays - 1, cluster.loop().Elapsed() / kDay));
    heap[day] = std::max(heap[day], HeapBytes());
    journal[day] = std::max(journal[day], cluster.disk().Bytes("data/journal-"));
    folder[day] = std::max(folder[day], cluster.disk().Bytes("data/"));
  });
  ASSERT_FALSE(cluster.auditor().failed()) << cluster.auditor().failure() << "\n" << cluster.Describe();
  for (int day = 0; day < kDays; ++day) {
    if (heap[day] > 0) {
      std::printf("day %d: at most %zu KiB of heap, %zu KiB of journals, %zu KiB in the folder\n", day + 1,
                  heap[day] >> 10, static_cast<size_t>(journal[day] >> 10), static_cast<size_t>(folder[day] >> 10));
    }
  }
  std::printf("%d global deltas, %d contributions merged, %d deaths of the coordinator, %d events, %.1f days\n",
              static_cast<int>(cluster.auditor().deltas()), static_cast<int>(cluster.auditor().merged()),
              static_cast<int>(cluster.coordinator().deaths()), static_cast<int>(cluster.loop().events()),
              absl::ToDoubleHours(cluster.loop().Elapsed()) / 24);
  // Journals: two snapshots' worth of rounds, and of members and evaluations between them.
  for (int day = 0; day < kDays; ++day) {
    EXPECT_LT(journal[day], uint64_t{4} << 20) << "day " << day + 1;
    EXPECT_LT(folder[day], uint64_t{5} << 20) << "day " << day + 1;
  }
  // The second day is the measure: by then everything that is kept for a while has been.
  for (int day = 2; day < kDays; ++day) {
    EXPECT_LT(heap[day], heap[1] + (size_t{1} << 20)) << "day " << day + 1;
  }
}

}  // namespace
}  // namespace diloco::sim
