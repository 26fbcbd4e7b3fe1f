// The network between a region and the coordinator goes silent: no connection ends, nothing passes. The region trains
// on within `max_late`, waits, and catches up by itself; the others go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

#include "tests/chaos/cluster.h"
#include "tests/chaos/coordinator_log.h"
#include "tests/chaos/is_ok.h"
#include "tests/support/tcp_proxy.h"

namespace diloco::testing {
namespace {

constexpr int kWorkers = 4;
constexpr int kRegion[] = {2, 3};
constexpr int kMaxLate = 2;

std::string Config() {
  return absl::StrFormat(
      "run: {id: region, workers: %d, rounds: 1000000}\n"
      "method: eager\n"
      "inner_steps: 10\n"
      "max_late: %d\n"
      "fragments: {count: 2}\n"
      "rounds: {quorum: 2, heartbeat_interval: 200ms, lease: 2s, grace_window: 5s, snapshot_every: 4}\n",
      kWorkers, kMaxLate);
}

class PartitionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(IsOk(cluster_.StartCoordinator()));
    link_ = std::make_unique<TcpProxy>(cluster_.coordinator().port());
    cluster_.StartWorker(0);
    cluster_.StartWorker(1);
    for (const int worker : kRegion) cluster_.StartWorkerThrough(worker, link_->address());
    ASSERT_TRUE(IsOk(cluster_.AwaitRounds(4)));
  }

  // Boundaries of the worker since the trace had `from` lines, and whether it waits at the end.
  struct Progress {
    int64_t newest_round = -1;
    int64_t newest_version = -1;
    bool waits = false;
  };
  Progress ProgressOf(int worker) {
    Progress progress;
    for (const nlohmann::json& line : cluster_.TraceOf(worker)) {
      if (line.at("event") == "wait") progress.waits = true;
      if (line.at("event") == "boundary") {
        progress = {.newest_round = line.at("round"), .newest_version = line.at("version")};
      }
    }
    return progress;
  }

  void RegionGoesThroughSilenceOf(absl::Duration silence) {
    link_->Silence();
    const absl::Time silent_since = absl::Now();
    const int64_t before = cluster_.RoundsCommitted();
    for (const int worker : kRegion) ASSERT_TRUE(IsOk(cluster_.Await([&] { return ProgressOf(worker).waits; })));
    // A stop of round r needs the averages up to r - 1 - max_late.
    for (const int worker : kRegion) {
      const Progress progress = ProgressOf(worker);
      EXPECT_LE(progress.newest_round - progress.newest_version, 1 + kMaxLate) << Cluster::IdOf(worker);
    }
    ASSERT_TRUE(IsOk(cluster_.AwaitRounds(before + kMaxLate + 4)));
    EXPECT_EQ(LinesOf(cluster_.coordinator().Log(), "worker_lost").size(), std::size(kRegion));
    while (absl::Now() < silent_since + silence) absl::SleepFor(absl::Milliseconds(100));
    for (const int worker : kRegion) {
      EXPECT_TRUE(ProgressOf(worker).waits) << Cluster::IdOf(worker) << " went on without the averages";
    }
    link_->Speak();
    const int64_t healed = cluster_.RoundsCommitted();
    ASSERT_TRUE(IsOk(cluster_.Await([&] { return RoundOfEverybody(healed) >= 0; })));
    std::cout << "  silent in round " << before << ", spoke in round " << healed << ", everybody was merged in round "
              << RoundOfEverybody(healed) << '\n';
    EXPECT_TRUE(IsOk(cluster_.CheckNothingLost()));
    for (const int worker : kRegion) EXPECT_TRUE(cluster_.worker(worker).running());
  }

  // The first round from `round` on whose global delta merged all workers; -1: none yet.
  int64_t RoundOfEverybody(int64_t round) {
    const absl::StatusOr<JournalReplay> replay = cluster_.Replay();
    if (!replay.ok()) return -1;
    for (; round < replay->version(0); ++round) {
      if (replay->Merged(0, round).size() == kWorkers) return round;
    }
    return -1;
  }

  Cluster cluster_{{.config_yaml = Config(), .workers = kWorkers, .step_time = absl::Milliseconds(30)}};
  std::unique_ptr<TcpProxy> link_;
};

TEST_F(PartitionTest, ARegionTrainsOnWaitsAndCatchesUp) { RegionGoesThroughSilenceOf(absl::Seconds(4)); }

// Longer than both ends' keepalive, so that every connection is given up and made again.
TEST_F(PartitionTest, ARegionCatchesUpOverNewConnectionsFull) { RegionGoesThroughSilenceOf(absl::Seconds(70)); }

// A worker whose heartbeats pass and whose bulk connection takes nothing in: a reader that stopped reading.
TEST(ReaderTest, OneThatStopsReadingHoldsNobodyUp) {
  Cluster cluster({.config_yaml = "run: {id: reader, workers: 3, rounds: 1000000}\n"
                                  "inner_steps: 10\n"
                                  "rounds: {quorum: 2, heartbeat_interval: 200ms, lease: 60s, grace_window: 200ms, "
                                  "snapshot_every: 4}\n",
                   .workers = 3,
                   .elements = 1'000'000,
                   .step_time = absl::Milliseconds(30)});
  ASSERT_TRUE(IsOk(cluster.StartCoordinator()));
  TcpProxy link(cluster.coordinator().port());
  cluster.StartWorkerThrough(2, link.address());
  ASSERT_TRUE(IsOk(cluster.Await([&link] { return link.connections() == 1; })));  // Its control connection.
  cluster.StartWorker(0);
  cluster.StartWorker(1);
  ASSERT_TRUE(IsOk(cluster.AwaitRounds(3)));
  link.Hold();
  const int64_t held = cluster.RoundsCommitted();
  ASSERT_TRUE(IsOk(cluster.AwaitRounds(held + 12)));
  EXPECT_TRUE(LinesOf(cluster.coordinator().Log(), "worker_lost").empty()) << "it is alive";
  link.Open();
  const int64_t opened = cluster.RoundsCommitted();
  ASSERT_TRUE(IsOk(cluster.Await([&] {
    const absl::StatusOr<JournalReplay> replay = cluster.Replay();
    if (!replay.ok()) return false;
    const auto settled = replay->SettledOf("w2", 0);
    return !settled.empty() && settled.rbegin()->first > opened &&
           settled.rbegin()->second.settlement == v1::SETTLEMENT_MERGED;
  })));
  EXPECT_TRUE(IsOk(cluster.CheckNothingLost()));
}

}  // namespace
}  // namespace diloco::testing
