// The network between a region and the coordinator goes silent: no connection ends, nothing passes. The region trains
// on within `max_late`, waits, and catches up by itself; the others go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

#include "common/base/check.h"
#include "tests/chaos/cluster.h"
#include "tests/chaos/coordinator_log.h"
#include "tests/chaos/is_ok.h"
#include "tests/support/process_facts.h"
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
    absl::SleepFor(silent_since + silence - absl::Now());  // So long is what is tested.
    for (const int worker : kRegion) {
      EXPECT_TRUE(ProgressOf(worker).waits) << Cluster::IdOf(worker) << " went on without the averages";
    }
    link_->Speak();
    const int64_t healed = cluster_.RoundsCommitted();
    ASSERT_TRUE(IsOk(cluster_.AwaitEverybody(healed)));
    std::cout << "  silent in round " << before << ", spoke in round " << healed << ", everybody was merged in round "
              << cluster_.RoundOfEverybody(healed) << '\n';
    EXPECT_TRUE(IsOk(cluster_.CheckNothingLost()));
    for (const int worker : kRegion) EXPECT_TRUE(cluster_.worker(worker).running());
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
  ASSERT_TRUE(
      IsOk(cluster.Await([&link] { return link.connections() >= 1; })));  // Its control connection is the first.
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

// A joiner whose download takes five rounds: it takes part after a bounded number of them, though each round adds to
// what it has to catch up on.
TEST(JoinerTest, OneThatIsSlowerThanTheRoundsTakesPartAllTheSame) {
  constexpr int64_t kElements = 200'000;
  constexpr int64_t kSnapshotBytes = kElements * 8;  // Parameters and momentum.
  constexpr int64_t kRoundsToCatchUp = 20;
  Cluster cluster({.config_yaml = "run: {id: joiner, workers: 2, rounds: 1000000}\n"
                                  "inner_steps: 10\n"
                                  "fragments: {count: 2}\n"
                                  "rounds: {heartbeat_interval: 200ms, lease: 60s, grace_window: 100ms}\n",
                   .workers = 3,
                   .elements = kElements,
                   .step_time = absl::Milliseconds(100)});
  ASSERT_TRUE(IsOk(cluster.StartCoordinator()));
  cluster.StartWorker(0);
  cluster.StartWorker(1);
  ASSERT_TRUE(IsOk(cluster.AwaitRounds(2)));
  TcpProxy link(cluster.coordinator().port());
  link.SetRate(kSnapshotBytes / 5);  // Five seconds, of rounds of one second at least.
  cluster.StartWorkerThrough(2, link.address());
  const int64_t joined_at = cluster.RoundsCommitted();
  int64_t at_work_in = -1;
  ASSERT_TRUE(IsOk(cluster.Await([&] {
    const absl::StatusOr<JournalReplay> replay = cluster.Replay();
    for (int64_t round = joined_at; replay.ok() && at_work_in < 0 && round < replay->version(0); ++round) {
      if (replay->AtWork(0, round).contains("w2")) at_work_in = round;
    }
    return at_work_in >= 0;
  })));
  std::cout << "  joined in round " << joined_at << ", merged in round " << at_work_in << '\n';
  EXPECT_LE(at_work_in, joined_at + kRoundsToCatchUp);
  EXPECT_TRUE(IsOk(cluster.CheckNothingLost()));
}

// A worker behind a router that drops every packet, both ways and without a word, when told to. Needs the right to make
// network namespaces.
class DroppedPacketsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "no right to make network namespaces";
    router_.emplace(Namespace());
    site_.emplace(Namespace());
    Shell(
        absl::StrFormat("ip link set lo up && ip link add t0 type veth peer name r0 netns %d && "
                        "ip addr add 10.1.0.1/24 dev t0 && ip link set t0 up && "
                        "ip route add 10.2.0.0/24 via 10.1.0.2",
                        router_->pid()));
    ShellIn(*router_, absl::StrFormat("ip link add r1 type veth peer name w0 netns %d && "
                                      "ip addr add 10.1.0.2/24 dev r0 && ip addr add 10.2.0.2/24 dev r1 && "
                                      "ip link set r0 up && ip link set r1 up",
                                      site_->pid()));
    ShellIn(*site_,
            "ip link set lo up && ip addr add 10.2.0.1/24 dev w0 && ip link set w0 up && "
            "ip route add default via 10.2.0.2");
    SetForwarding(true);
  }

  // A process that keeps a network namespace of its own alive.
  static Process Namespace() {
    absl::StatusOr<Process> holder =
        Process::Start({.arguments = {"/usr/bin/unshare", "-n", "/bin/sh", "-c", "echo up && exec sleep 3600"}});
    DILOCO_CHECK(holder.ok());
    return *std::move(holder);
  }
  static std::vector<std::string> Enter(const Process& holder) {
    return {"/usr/bin/nsenter", "-t", std::to_string(holder.pid()), "-n"};
  }
  static void Run(const std::vector<std::string>& command) {
    const absl::StatusOr<Finished> finished = RunProcess(command, kPatience);
    ASSERT_TRUE(finished.ok() && finished->exit_code == 0) << command.back() << finished->errors;
  }
  static void Shell(const std::string& script) { Run({"/bin/sh", "-c", script}); }
  static void ShellIn(const Process& holder, const std::string& script) {
    std::vector<std::string> command = Enter(holder);
    command.insert(command.end(), {"/bin/sh", "-c", script});
    Run(command);
  }
  void SetForwarding(bool on) {
    ShellIn(*router_, absl::StrFormat("echo %d > /proc/sys/net/ipv4/ip_forward", on ? 1 : 0));
  }

  std::optional<Process> router_;
  std::optional<Process> site_;
};

TEST_F(DroppedPacketsTest, BothEndsNoticeAndTheUploadGoesOnFull) {
  constexpr absl::Duration kOutage = absl::Seconds(90);
  // kKeepalivePeriod and kKeepaliveTimeout, and what a busy machine adds.
  constexpr absl::Duration kNoticed = absl::Seconds(40 + 20);
  Cluster cluster({.config_yaml = "run: {id: dropped, workers: 3, rounds: 1000000}\n"
                                  "inner_steps: 10\n"
                                  "fragments: {count: 2}\n"
                                  "wire: {upload_bytes_per_second: 600000}\n"  // An upload is always under way.
                                  "rounds: {quorum: 2, heartbeat_interval: 1s, lease: 10s, grace_window: 2s}\n",
                   .workers = 3,
                   .elements = 1'000'000,
                   .step_time = absl::Milliseconds(100),
                   .coordinator = {.host = "10.1.0.1", .arguments = {"--allow-plaintext"}}});
  ASSERT_TRUE(IsOk(cluster.StartCoordinator()));
  cluster.StartWorker(0);
  cluster.StartWorker(1);
  cluster.StartWorkerThrough(2, cluster.coordinator().address(), Enter(*site_));
  ASSERT_TRUE(IsOk(cluster.AwaitEverybody(0)));
  const auto facts_of = [](const Process& process) { return *ReadProcessFacts(process.pid()); };
  const ProcessFacts coordinator_before = facts_of(cluster.coordinator().process());
  const ProcessFacts worker_before = facts_of(cluster.worker(2));
  const size_t log_before = cluster.LogOf(2).size();

  SetForwarding(false);
  const absl::Time dropped_at = absl::Now();
  const auto worker_noticed = [&] {
    return cluster.LogOf(2).find("event=session_closed", log_before) != std::string::npos;
  };
  const auto coordinator_noticed = [&] {
    return facts_of(cluster.coordinator().process()).open_files <= coordinator_before.open_files - 2;
  };
  ASSERT_TRUE(IsOk(cluster.Await(worker_noticed)));
  std::cout << "  the worker noticed after " << absl::Now() - dropped_at << '\n';
  ASSERT_TRUE(IsOk(cluster.Await(coordinator_noticed)));
  std::cout << "  and the coordinator closed both connections after " << absl::Now() - dropped_at << '\n';
  EXPECT_LT(absl::Now() - dropped_at, kNoticed);
  const int64_t others = cluster.RoundsCommitted();
  absl::SleepFor(dropped_at + kOutage - absl::Now());  // So long is what is tested.
  const ProcessFacts worker_after = facts_of(cluster.worker(2));
  std::cout << "  the worker's memory: " << worker_before.resident_bytes / 1024 << " -> "
            << worker_after.resident_bytes / 1024 << " KiB\n";
  EXPECT_LT(static_cast<double>(worker_after.resident_bytes), 1.25 * static_cast<double>(worker_before.resident_bytes));
  EXPECT_GT(cluster.RoundsCommitted(), others) << "the others go on";

  SetForwarding(true);
  const int64_t lifted = cluster.RoundsCommitted();
  ASSERT_TRUE(IsOk(cluster.AwaitEverybody(lifted)));
  std::cout << "  lifted in round " << lifted << ", merged in round " << cluster.RoundOfEverybody(lifted) << '\n';
  EXPECT_TRUE(cluster.worker(2).running());
  EXPECT_TRUE(IsOk(cluster.CheckNothingLost()));
}

}  // namespace
}  // namespace diloco::testing
