// Every place at which the coordinator can die is reached, on each of its sides, and the run goes on and ends whatever
// the disk kept: a list of them all, and none that is not in it.
#include <cstdio>
#include <set>
#include <string>

#include "gtest/gtest.h"

#include "spdlog/spdlog.h"
#include "tests/sim/cluster.h"

namespace diloco::sim {
namespace {

const char* const kPoints[] = {
    // Effects of the round machine.
    "effect AdmitWorker",
    "effect AnswerContribution",
    "effect PersistCommit",
    "effect PersistEnd",
    "effect PublishEnd",
    "effect PublishGlobalDelta",
    "effect RecordDeparture",
    "effect RecordDrain",
    "effect RecordEviction",
    "effect RecordReadmission",
    "effect RefuseWorker",
    "effect ReleaseContribution",
    "effect StartMerge",
    "effect WorkerLost",
    // Tasks of the pool.
    "work check",
    "work consensus",
    "work merge",
    // The journal, group by group.
    "disk append journal commit delta",
    "disk append journal commit end",
    "disk append journal commit evaluation",
    "disk append journal commit member",
    "disk append journal commit run",
    "disk append journal records",
    "disk sync journal commit delta",
    "disk sync journal commit end",
    "disk sync journal commit evaluation",
    "disk sync journal commit member",
    "disk sync journal commit run",
    "disk sync journal records",
    // A new journal, with what its snapshot lacks.
    "disk append new journal commit delta",
    "disk append new journal records",
    "disk sync new journal commit delta",
    "disk sync new journal records",
    "disk create new journal",
    "disk rename journal",
    "disk remove journal",
    // Snapshots, checkpoints, folders.
    "disk append new snapshot",
    "disk create new snapshot",
    "disk rename snapshot",
    "disk remove snapshot",
    "disk sync new snapshot",
    "disk append checkpoint",
    "disk create checkpoint",
    "disk rename checkpoint",
    "disk sync checkpoint",
    "disk sync-folder checkpoint",
    "disk sync-folder other",
};

class CrashPointsTest : public testing::Test {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::off); }
};

TEST_F(CrashPointsTest, EachIsReachedAndSurvived) {
  std::set<CrashPoints::Key> passed;
  // What there is: sides differ, and what a run passes by depends on its faults.
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Cluster cluster(BusyScenario(seed));
    cluster.Run();
    ASSERT_FALSE(cluster.auditor().failed()) << cluster.auditor().failure();
    for (const auto& [key, count] : cluster.points().counts()) passed.insert(key);
  }
  std::set<std::string> names;
  for (const CrashPoints::Key& key : passed) names.insert(key.first);
  for (const char* name : kPoints) EXPECT_TRUE(names.contains(name)) << name << " is not passed by any run";
  for (const std::string& name : names) {
    EXPECT_NE(std::count(std::begin(kPoints), std::end(kPoints), name), 0) << name << " is not in the list";
  }

  uint64_t runs = 0;
  for (const CrashPoints::Key& key : passed) {
    uint64_t died = 0;
    for (uint64_t seed = 1; seed <= 400 && died == 0; ++seed, ++runs) {
      Cluster cluster(BusyScenario(seed));
      cluster.points().ArmAt(seed <= 10 ? seed % 3 : 0, key);
      cluster.Run();
      ASSERT_FALSE(cluster.auditor().failed()) << key.first << " side " << static_cast<int>(key.second) << ", seed "
                                               << seed << ": " << cluster.auditor().failure();
      const auto count = cluster.points().counts().find(key);
      died = count == cluster.points().counts().end() ? 0 : count->second.died;
    }
    EXPECT_EQ(died, 1u) << key.first << " side " << static_cast<int>(key.second);
  }
  std::printf("%d crash points with %d sides, each died at and survived, in %d runs\n",
              static_cast<int>(std::size(kPoints)), static_cast<int>(passed.size()), static_cast<int>(runs));
}

}  // namespace
}  // namespace diloco::sim
