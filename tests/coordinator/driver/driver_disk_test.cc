// A disk that is full, read-only or broken under a whole run: what is promised of each, at every change of the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/coordinator/driver/hand_worker.h"
#include "tests/coordinator/driver/sim_cluster.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

const absl::Status kFull = absl::ResourceExhaustedError("No space left on device");
const absl::Status kReadOnly = absl::PermissionDeniedError("Read-only file system");
const absl::Status kBroken = absl::UnknownError("Input/output error");

std::string Yaml() { return RunYaml(2, 4, "fp32", "fp32", "rounds: {snapshot_every: 2, lease: 24h}\n"); }

v1::GetStatusResponse StatusOf(Coordinator& coordinator) {
  Answer<v1::GetStatusResponse> answer;
  coordinator.driver->GetStatus(v1::GetStatusRequest(), Into(&answer));
  coordinator.PumpDriver();
  return ***answer;
}

// Lets the time pass until the disk is asked again, for as long as the run is held. A worker that was turned away comes
// again.
void RunOn(SimCluster& cluster) {
  cluster.Run();
  for (int i = 0; i < 20 && cluster.coordinator.observer.fatal.ok() && !cluster.coordinator.observer.finished; ++i) {
    cluster.coordinator.clock.Advance(kLongestDiskRetry);
    for (const auto& worker : cluster.workers) {
      if (!worker->joined()) {
        worker->Disconnect();
        worker->Connect(cluster.coordinator.driver.get());
      }
    }
    cluster.Run();
  }
}

struct Outcome {
  std::vector<std::string> digests;
  bool fatal = false;
};

// Every commit that a worker has seen is one of the journal's rounds, or the snapshot covers it.
void ExpectPublishedIsThere(SimCluster& cluster) {
  for (const auto& worker : cluster.workers) {
    for (const v1::GlobalDeltaCommit& commit : worker->commits()) {
      v1::DescribeRoundRequest request;
      request.set_round(commit.round());
      const auto round = cluster.coordinator.Call(&Driver::DescribeRound, request);
      if (commit.round() < cluster.coordinator.store->NewestSnapshot()->header.version()) continue;
      ASSERT_TRUE(round.ok()) << round.status();
      EXPECT_EQ(round->fragments(static_cast<int>(commit.fragment())).payload_digest().value(),
                commit.payload_digest().value());
    }
  }
}

// Two workers to the end of the run; the `nth` change of the coordinator's disk since its start fails `times` times in
// a row. When that ends the process another one goes on.
Outcome RunWithFault(int nth, int times, const absl::Status& fault) {
  SimCluster cluster(Yaml(), 2);
  RecordingObserver& observer = cluster.coordinator.observer;
  cluster.Start();
  cluster.coordinator.files.Fail("", nth, times, fault);
  RunOn(cluster);
  Outcome outcome{.digests = {}, .fatal = !observer.fatal.ok()};
  if (outcome.fatal) {
    observer.fatal = absl::OkStatus();
    cluster.Crash();
    cluster.coordinator.files.Fail("", 0, 0, absl::OkStatus());
    cluster.Start();
    ExpectPublishedIsThere(cluster);
    RunOn(cluster);
  }
  EXPECT_TRUE(observer.fatal.ok()) << observer.fatal;
  EXPECT_TRUE(observer.finished);
  EXPECT_THAT(observer.hold, IsEmpty());
  for (const auto& worker : cluster.workers) {
    EXPECT_TRUE(worker->done());
    EXPECT_EQ(worker->merged().size(), 8U);
    for (const auto& [key, count] : worker->merged()) {
      EXPECT_EQ(count, 1);
    }
  }
  const auto& end = cluster.workers[0]->end();
  for (int i = 0; end && i < end->consensus_digests_size(); ++i) {
    outcome.digests.push_back(end->consensus_digests(i).value());
  }
  return outcome;
}

// Once, and three times in a row, which also hits what is done about the first.
TEST(DriverDiskTest, EveryChangeOfTheDiskMayFail) {
  const Outcome expected = RunWithFault(0, 0, absl::OkStatus());
  ASSERT_EQ(expected.digests.size(), 2U);
  SimCluster undisturbed(Yaml(), 2);
  undisturbed.Start();
  undisturbed.coordinator.files.changes.clear();
  undisturbed.Run();
  const std::vector<std::string> changes = undisturbed.coordinator.files.changes;
  ASSERT_GT(changes.size(), 80U);
  for (size_t at = 0; at < changes.size(); ++at) {
    for (const auto& [fault, times] : {std::pair(kFull, 1), std::pair(kReadOnly, 3), std::pair(kBroken, 1)}) {
      SCOPED_TRACE(changes[at] + ", " + std::to_string(times) + " times " + fault.ToString());
      const Outcome outcome = RunWithFault(static_cast<int>(at), times, fault);
      EXPECT_EQ(outcome.digests, expected.digests);
      EXPECT_EQ(outcome.fatal, fault == kBroken || changes[at].starts_with("sync"));
      if (HasFailure()) return;
    }
  }
}

// What the data folder takes, at its largest, over a stretch of a long run.
struct FolderSize {
  size_t journals = 0;
  size_t snapshots = 0;
  uintmax_t bytes = 0;
};

void Note(const std::string& folder, FolderSize* largest) {
  FolderSize now;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    now.journals += name.starts_with("journal-") ? 1 : 0;
    now.snapshots += name.starts_with("snapshot-") ? 1 : 0;
    if (entry.is_regular_file()) now.bytes += entry.file_size();
  }
  largest->journals = std::max(largest->journals, now.journals);
  largest->snapshots = std::max(largest->snapshots, now.snapshots);
  largest->bytes = std::max(largest->bytes, now.bytes);
}

TEST(RetentionTest, AThousandRoundsTakeNoMoreThanAHundred) {
  SimCluster cluster(RunYaml(1, 1000, "fp32", "fp32", "rounds: {snapshot_every: 5, lease: 24h}\n"), 1);
  cluster.Start();
  FolderSize first;
  FolderSize rest;
  for (int64_t noted = -1; cluster.Turn();) {
    const int64_t version = cluster.workers[0]->version();
    if (version == noted) continue;
    noted = version;
    Note(cluster.coordinator.data(), version <= 100 ? &first : &rest);
  }
  ASSERT_TRUE(cluster.workers[0]->done());
  EXPECT_EQ(cluster.workers[0]->version(), 1000);
  EXPECT_LE(rest.snapshots, 3U);  // Two, and the one that is being written.
  EXPECT_LE(rest.journals, 3U);
  EXPECT_LE(rest.bytes, first.bytes + 4096);  // Numbers of rounds have more digits, and the end record is one more.
  // 2 snapshots of a header, a record and a consensus, and 10 rounds of 2 fragments with 2 blocks each, and some.
  EXPECT_LE(rest.bytes, 3U * 4 * 4096 + 3U * 5 * 2 * 2 * 4096 + 4 * 4096);
}

class HeldTest : public ::testing::Test {
 protected:
  HeldTest() : cluster_(Yaml(), 2), coordinator_(cluster_.coordinator) { cluster_.Start(); }
  // Until every fragment has committed this many rounds.
  void RunTo(int64_t version) {
    while (cluster_.workers[0]->version() < version) {
      ASSERT_TRUE(cluster_.Turn());
    }
  }
  size_t Published() const { return cluster_.workers[0]->commits().size(); }

  SimCluster cluster_;
  Coordinator& coordinator_;
};

TEST_F(HeldTest, ARecordWaitsAndEverythingElseGoesOn) {
  RunTo(1);
  const size_t published = Published();
  const int received = coordinator_.observer.verdicts[Verdict::kStored];
  coordinator_.files.Fail("append " + coordinator_.data() + "/journal", 0, 1'000'000, kFull);
  cluster_.Run();
  EXPECT_EQ(Published(), published);
  EXPECT_TRUE(coordinator_.observer.fatal.ok());
  EXPECT_GT(coordinator_.observer.verdicts[Verdict::kStored], received);  // Uploads are taken.

  const v1::GetStatusResponse status = StatusOf(coordinator_);
  EXPECT_EQ(status.state(), v1::RUN_STATE_HOLDING);
  const std::string sentence =
      "No space left on device (8192 bytes free); tried again in 1s, and goes on by itself once the disk has room";
  EXPECT_EQ(status.reason(), sentence);
  EXPECT_EQ(coordinator_.observer.hold, sentence);
  EXPECT_EQ(coordinator_.observer.hold_cause, HoldCause::kDisk);
  EXPECT_EQ(coordinator_.observer.refusals, (std::map<DiskUser, int>{{DiskUser::kJournal, 1}}));

  // A joiner is told, and comes again; heartbeats and questions are answered.
  HandWorker late(&coordinator_, "late", 7);
  const auto joined = late.Join();
  EXPECT_EQ(joined.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(joined.status().message()), HasSubstr(sentence));
  EXPECT_TRUE(coordinator_.Call(&Driver::ListWorkers, v1::ListWorkersRequest()).ok());
  EXPECT_TRUE(coordinator_.Call(&Driver::SaveCheckpoint, v1::SaveCheckpointRequest()).ok());

  // The tries come at 0.5, 1, 2, 4, 8, 15, 15 seconds from one another: 8 by 50 seconds.
  for (int i = 0; i < 500; ++i) {
    coordinator_.clock.Advance(absl::Milliseconds(100));
    coordinator_.Pump();
  }
  EXPECT_EQ(coordinator_.observer.refusals[DiskUser::kJournal], 8);
  EXPECT_EQ(Published(), published);

  coordinator_.files.Fail("", 0, 0, absl::OkStatus());
  coordinator_.clock.Advance(kLongestDiskRetry);
  cluster_.Run();
  EXPECT_THAT(coordinator_.observer.hold, IsEmpty());
  EXPECT_EQ(StatusOf(coordinator_).state(), v1::RUN_STATE_ENDED);
  EXPECT_TRUE(cluster_.workers[0]->done());
}

TEST_F(HeldTest, AReadOnlyDiskSaysWhatWouldHelp) {
  RunTo(1);
  coordinator_.files.Fail("", 0, 1'000'000, kReadOnly);
  // Its own syncs fail too, but none is reached.
  cluster_.Run();
  EXPECT_TRUE(coordinator_.observer.fatal.ok());
  EXPECT_EQ(StatusOf(coordinator_).reason(),
            "Read-only file system (8192 bytes free); tried again in 1s, and goes on by itself once the disk can be "
            "written to");
  coordinator_.files.Fail("", 0, 0, absl::OkStatus());
  RunOn(cluster_);
  EXPECT_TRUE(cluster_.workers[0]->done());
}

TEST_F(HeldTest, RoundsGoOnWithoutASnapshot) {
  coordinator_.files.Fail("append " + coordinator_.data() + "/snapshot-0000000002", 0, 1'000'000, kFull);
  RunTo(3);
  EXPECT_EQ(coordinator_.observer.refusals, (std::map<DiskUser, int>{{DiskUser::kSnapshot, 1}}));
  EXPECT_NE(StatusOf(coordinator_).state(), v1::RUN_STATE_HOLDING);
  EXPECT_EQ(StatusOf(coordinator_).snapshot_version(), 0);
  EXPECT_FALSE(std::filesystem::exists(coordinator_.data() + "/snapshot-0000000002.tmp"));
  // It does not end without one.
  cluster_.Run();
  EXPECT_EQ(StatusOf(coordinator_).state(), v1::RUN_STATE_HOLDING);
  EXPECT_EQ(StatusOf(coordinator_).rounds_committed(), 4);
  EXPECT_FALSE(cluster_.workers[0]->end().has_value());
  coordinator_.files.Fail("", 0, 0, absl::OkStatus());
  RunOn(cluster_);
  EXPECT_TRUE(cluster_.workers[0]->done());
  EXPECT_EQ(StatusOf(coordinator_).snapshot_version(), 4);
}

// What is published since the newest snapshot is kept in memory.
TEST(OverdueSnapshotTest, HoldsTheRunInTheEnd) {
  constexpr int kRounds = static_cast<int>(kMaxRoundsWithoutSnapshot) + 20;
  SimCluster cluster(RunYaml(2, kRounds, "fp32", "fp32", "rounds: {snapshot_every: 6}\n"), 2);
  cluster.Start();
  Coordinator& coordinator = cluster.coordinator;
  coordinator.files.Fail("append " + coordinator.data() + "/snapshot-0000000002", 0, 1'000'000, kFull);
  cluster.Run();
  const v1::GetStatusResponse status = StatusOf(coordinator);
  EXPECT_EQ(status.state(), v1::RUN_STATE_HOLDING);
  EXPECT_THAT(status.reason(), HasSubstr("No space left on device"));
  EXPECT_EQ(coordinator.observer.hold, status.reason());
  EXPECT_EQ(status.snapshot_version(), 0);
  EXPECT_GE(status.rounds_committed(), kMaxRoundsWithoutSnapshot);
  EXPECT_LE(status.rounds_committed(), kMaxRoundsWithoutSnapshot + coordinator.config().OpenRounds());
  // A start in between does not let it go on.
  cluster.Crash();
  cluster.Start();
  cluster.Run();
  EXPECT_EQ(StatusOf(coordinator).state(), v1::RUN_STATE_HOLDING);
  EXPECT_LE(StatusOf(coordinator).rounds_committed(),
            kMaxRoundsWithoutSnapshot + 2 * coordinator.config().OpenRounds());
  coordinator.files.Fail("", 0, 0, absl::OkStatus());
  RunOn(cluster);
  EXPECT_TRUE(cluster.workers[0]->done());
  EXPECT_EQ(StatusOf(coordinator).rounds_committed(), kRounds);
}

TEST(OverdueSnapshotTest, IsMadeOfTheVersionThereIs) {
  SimCluster cluster(RunYaml(2, 12, "fp32", "fp32", "rounds: {snapshot_every: 6}\n"), 2);
  cluster.Start();
  Coordinator& coordinator = cluster.coordinator;
  coordinator.files.Fail("append " + coordinator.data() + "/snapshot-0000000002", 0, 1, kFull);
  while (cluster.workers[0]->version() < 7) {
    ASSERT_TRUE(cluster.Turn());
  }
  EXPECT_EQ(coordinator.observer.snapshots, std::vector<int64_t>{0});
  coordinator.clock.Advance(kFirstDiskRetry);
  coordinator.Pump();
  ASSERT_EQ(coordinator.observer.snapshots.size(), 2U);
  EXPECT_GT(coordinator.observer.snapshots.back(), 6);
  EXPECT_LT(coordinator.observer.snapshots.back(), 12);
}

TEST_F(HeldTest, ACheckpointThatFailsIsTheCallersAlone) {
  RunTo(1);
  coordinator_.files.Fail("create " + coordinator_.data() + "/checkpoints", 0, 1, kFull);
  const auto saved = coordinator_.Call(&Driver::SaveCheckpoint, v1::SaveCheckpointRequest());
  EXPECT_EQ(saved.status().message(), "No space left on device (8192 bytes free)");
  const std::string partial = coordinator_.data() + "/checkpoints/.round-00000001.partial";
  EXPECT_TRUE(std::filesystem::is_empty(partial));
  EXPECT_EQ(coordinator_.observer.checkpoints_failed, 1);
  EXPECT_TRUE(coordinator_.Call(&Driver::SaveCheckpoint, v1::SaveCheckpointRequest()).ok());
  cluster_.Run();
  EXPECT_TRUE(cluster_.workers[0]->done());
}

TEST_F(HeldTest, TheFinalCheckpointWaitsForTheDisk) {
  coordinator_.files.Fail("create " + coordinator_.data() + "/checkpoints", 0, 2, kFull);
  cluster_.Run();
  EXPECT_TRUE(cluster_.workers[0]->done());  // It has the end record, and may leave.
  EXPECT_FALSE(coordinator_.observer.finished);
  EXPECT_EQ(StatusOf(coordinator_).state(), v1::RUN_STATE_HOLDING);
  RunOn(cluster_);
  EXPECT_TRUE(coordinator_.observer.finished);
  EXPECT_EQ(coordinator_.observer.checkpoints, std::vector<int64_t>{4});
}

TEST_F(HeldTest, AFailedSyncNamesTheFileAndPublishesNothing) {
  RunTo(1);
  const size_t published = Published();
  coordinator_.files.Fail("sync ", 0, 1, kBroken);
  cluster_.Run();
  EXPECT_EQ(Published(), published);
  EXPECT_EQ(coordinator_.observer.fatal.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(coordinator_.observer.fatal.message()), StartsWith("Input/output error"));
}

}  // namespace
}  // namespace diloco
