// The power goes, or the process is killed, at every change that a run makes to the disk: what was acknowledged is
// there after the restart, whatever became of the rest. And a disk that fails: what it refused is tried again, after
// anything else the store stops at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <vector>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "coordinator/store/store.h"
#include "tests/coordinator/store/fault_file_system.h"
#include "tests/coordinator/store/store_fixture.h"

namespace diloco {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Unsynced = FaultFileSystem::Unsynced;

constexpr Unsynced kAllUnsynced[] = {Unsynced::kLost, Unsynced::kPrefix, Unsynced::kZeros, Unsynced::kRandomBlocks,
                                     Unsynced::kWritten};

absl::StatusOr<std::unique_ptr<Store>> OpenStore(FaultFileSystem& files, RecoveredState& recovered) {
  recovered = RecoveredState();
  return Store::Open(&files, StoreOptions{.folder = kFolder, .holder = "test"}, &recovered);
}

// Makes one call of the store, and decides what to do when it fails.
using Call = std::function<absl::Status()>;
using Caller = std::function<absl::Status(const Call&)>;

absl::Status CallOnce(const Call& call) { return call(); }

// A run in small: every kind of record, deltas that span blocks, three snapshots so that old files are dropped.
absl::Status PlayRun(Recorder& recorder, const Caller& make = CallOnce) {
  DILOCO_RETURN_IF_ERROR(make([&] { return recorder.Run(MakeRun(5000)); }));
  DILOCO_RETURN_IF_ERROR(make([&] { return recorder.Member(MakeMember("east", 1)); }));
  DILOCO_RETURN_IF_ERROR(make([&] { return recorder.Snapshot(0); }));
  for (int64_t round = 0; round < 3; ++round) {
    DILOCO_RETURN_IF_ERROR(make([&] { return recorder.Delta(MakeDelta(0, round, 5000)); }));
    // Fragment 0 is one round ahead.
    if (round > 0) DILOCO_RETURN_IF_ERROR(make([&] { return recorder.Snapshot(round); }));
    DILOCO_RETURN_IF_ERROR(make([&] { return recorder.Delta(MakeDelta(1, round, 100)); }));
    DILOCO_RETURN_IF_ERROR(make([&] { return recorder.Evaluation(MakeEvaluation(round, 2.0)); }));
  }
  DILOCO_RETURN_IF_ERROR(make([&] { return recorder.End(MakeEnd(3)); }));
  return make([&] { return recorder.Snapshot(3); });
}

// What one process acknowledged before it ended, and what it would have, had its last call worked.
struct Acknowledged {
  Expected expected;
  Expected if_last_worked;
  bool finished = false;
};

Acknowledged RunProcess(FaultFileSystem& files) {
  RecoveredState recovered;
  const absl::StatusOr<std::unique_ptr<Store>> store = OpenStore(files, recovered);
  Acknowledged acknowledged;
  if (!store.ok()) return acknowledged;
  Recorder recorder(store->get());
  acknowledged.finished = PlayRun(recorder).ok();
  acknowledged.expected = recorder.expected();
  acknowledged.if_last_worked = recorder.expected_if_last_worked();
  return acknowledged;
}

int ChangesOfAWholeRun() {
  FaultFileSystem files;
  EXPECT_TRUE(RunProcess(files).finished);
  return files.changes();
}

void ExpectAcknowledged(const RecoveredState& recovered, const Acknowledged& acknowledged) {
  const Expected found = Summarise(recovered);
  ASSERT_TRUE(found == acknowledged.expected || found == acknowledged.if_last_worked)
      << "found " << Describe(found) << "\nacknowledged " << Describe(acknowledged.expected) << "\nor "
      << Describe(acknowledged.if_last_worked);
  if (found.snapshot_version >= 0) {
    ASSERT_EQ(recovered.consensus, MakeConsensus(found.snapshot_version));
  }
}

// One more record goes in, and both it and what was found survive a power cut.
void ExpectGoesOn(FaultFileSystem& files) {
  RecoveredState recovered;
  absl::StatusOr<std::unique_ptr<Store>> store = OpenStore(files, recovered);
  ASSERT_TRUE(store.ok()) << store.status();
  Recorder recorder(store->get(), recovered);
  ASSERT_TRUE(recorder.Run(MakeRun(10)).ok());
  ASSERT_TRUE(recorder.Member(MakeMember("west", 9)).ok());
  if (recovered.snapshot != nullptr) {
    const int64_t rounds = recovered.snapshot->version() + static_cast<int64_t>(recovered.deltas.size());
    ASSERT_TRUE(recorder.Snapshot(rounds).ok());
    ASSERT_TRUE(recorder.Delta(MakeDelta(0, rounds)).ok());
  }
  store->reset();
  files.Crash(Unsynced::kLost);
  store = OpenStore(files, recovered);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_EQ(Summarise(recovered), recorder.expected());
  ASSERT_THAT(recovered.warnings, IsEmpty());
}

// The consensus is replaced by one of version 1, however far the folder is.
absl::Status WriteGeneration(Store* store) {
  const std::vector<float> consensus = MakeConsensus(1);
  v1::SnapshotRecord header;
  *header.mutable_run() = MakeRun();
  header.mutable_run()->set_generation(1);
  header.set_version(1);
  header.set_consensus_bytes(consensus.size() * sizeof(float));
  return store->WriteSnapshot(header, {absl::Span<const float>(consensus)}, {});
}

// What the journals of the generation before hold does not follow the new one, though their rounds would.
TEST(CrashTest, ANewGenerationReplacesEverythingOrNothingWhereverThePowerGoes) {
  bool finished = false;
  int at = 0;
  for (; !finished; ++at) {
    for (const Unsynced unsynced : kAllUnsynced) {
      SCOPED_TRACE(absl::StrFormat("change %d, unsynced %d", at, static_cast<int>(unsynced)));
      FaultFileSystem files;
      RecoveredState recovered;
      absl::StatusOr<std::unique_ptr<Store>> store = OpenStore(files, recovered);
      ASSERT_TRUE(store.ok()) << store.status();
      Recorder recorder(store->get());
      ASSERT_TRUE(recorder.Run(MakeRun()).ok());
      ASSERT_TRUE(recorder.Snapshot(0).ok());
      for (const int64_t round : {0, 1, 2}) {
        for (const int fragment : {0, 1}) ASSERT_TRUE(recorder.Delta(MakeDelta(fragment, round)).ok());
      }
      files.FailAt(at, absl::UnavailableError("the power is gone"), /*for_good=*/true);
      finished = WriteGeneration(store->get()).ok();
      store->reset();
      files.Crash(unsynced);
      store = OpenStore(files, recovered);
      ASSERT_TRUE(store.ok()) << store.status();
      if (recovered.run->generation() == 0) {
        ASSERT_FALSE(finished);
        ASSERT_EQ(Summarise(recovered), recorder.expected());
        continue;
      }
      ASSERT_EQ(recovered.consensus, MakeConsensus(1));
      ASSERT_TRUE(recovered.deltas.empty());
      ASSERT_TRUE((*store)->AppendGlobalDelta(*MakeDelta(0, 1)).ok());
      store->reset();
      store = OpenStore(files, recovered);
      ASSERT_TRUE(store.ok()) << store.status();
      ASSERT_EQ(recovered.snapshot->version(), 1);
      ASSERT_EQ(recovered.deltas.size(), 1U);
    }
  }
  EXPECT_GT(at, 8);
}

TEST(CrashTest, PowerCutAtEveryChangeKeepsWhatWasAcknowledged) {
  const int changes = ChangesOfAWholeRun();
  ASSERT_GT(changes, 100);
  for (int at = 0; at <= changes; ++at) {
    for (const Unsynced unsynced : kAllUnsynced) {
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        SCOPED_TRACE(absl::StrFormat("change %d, unsynced %d, seed %d", at, static_cast<int>(unsynced), seed));
        FaultFileSystem files(seed);
        files.FailAt(at, absl::UnavailableError("the power is gone"), /*for_good=*/true);
        const Acknowledged acknowledged = RunProcess(files);
        ASSERT_EQ(acknowledged.finished, at == changes);
        files.Crash(unsynced);
        RecoveredState recovered;
        const absl::StatusOr<std::unique_ptr<Store>> store = OpenStore(files, recovered);
        ASSERT_TRUE(store.ok()) << store.status();
        ASSERT_NO_FATAL_FAILURE(ExpectAcknowledged(recovered, acknowledged));
        const std::vector<std::string> names = *files.List(kFolder);
        for (const std::string& name : names) ASSERT_FALSE(name.ends_with(".tmp")) << name;
        files.Kill();
        ASSERT_NO_FATAL_FAILURE(ExpectGoesOn(files));
      }
    }
  }
}

// What recovery believed must be durable from then on, although the process that wrote it never synced it.
TEST(CrashTest, WhatWasRecoveredAfterAKillSurvivesAPowerCut) {
  const int changes = ChangesOfAWholeRun();
  for (int at = 0; at <= changes; ++at) {
    SCOPED_TRACE(at);
    FaultFileSystem files;
    files.FailAt(at, absl::UnavailableError("killed"), /*for_good=*/true);
    const Acknowledged acknowledged = RunProcess(files);
    files.Kill();
    RecoveredState recovered;
    absl::StatusOr<std::unique_ptr<Store>> store = OpenStore(files, recovered);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_NO_FATAL_FAILURE(ExpectAcknowledged(recovered, acknowledged));
    const Expected believed = Summarise(recovered);
    store->reset();
    files.Crash(Unsynced::kLost);
    store = OpenStore(files, recovered);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_EQ(Summarise(recovered), believed);
  }
}

TEST(CrashTest, PowerCutDuringRecoveryLosesNothing) {
  const int changes = ChangesOfAWholeRun();
  for (int at = 0; at <= changes; ++at) {
    for (int again = 0;; ++again) {
      SCOPED_TRACE(absl::StrFormat("change %d, then change %d of recovery", at, again));
      FaultFileSystem files(static_cast<uint64_t>(at + 1));
      files.FailAt(at, absl::UnavailableError("the power is gone"), /*for_good=*/true);
      const Acknowledged acknowledged = RunProcess(files);
      files.Crash(Unsynced::kPrefix);
      files.FailAt(again, absl::UnavailableError("the power is gone"), /*for_good=*/true);
      RecoveredState recovered;
      absl::StatusOr<std::unique_ptr<Store>> store = OpenStore(files, recovered);
      const bool recovery_ended = store.ok();
      if (store.ok()) store->reset();
      files.Crash(Unsynced::kRandomBlocks);
      store = OpenStore(files, recovered);
      ASSERT_TRUE(store.ok()) << store.status();
      ASSERT_NO_FATAL_FAILURE(ExpectAcknowledged(recovered, acknowledged));
      if (recovery_ended) break;
    }
  }
}

// A disk that fails once and then works again: nothing is tried a second time in the same process.
TEST(FaultTest, StoreRefusesEverythingAfterAnyError) {
  const int changes = ChangesOfAWholeRun();
  for (int at = 0; at < changes; ++at) {
    SCOPED_TRACE(at);
    FaultFileSystem files;
    files.FailAt(at, absl::UnknownError("input/output error"));
    RecoveredState recovered;
    absl::StatusOr<std::unique_ptr<Store>> store = OpenStore(files, recovered);
    if (!store.ok()) continue;
    Recorder recorder(store->get());
    const absl::Status failed = PlayRun(recorder);
    ASSERT_THAT(std::string(failed.message()), ::testing::StartsWith("input/output error"));
    const Acknowledged acknowledged{recorder.expected(), recorder.expected_if_last_worked(), false};

    const int after = files.changes();
    for (const absl::Status& refused :
         {store->get()->AppendRun(MakeRun()), store->get()->AppendMember(MakeMember("east", 5)),
          store->get()->AppendEvaluation(MakeEvaluation(9, 1)), store->get()->AppendGlobalDelta(*MakeDelta(0, 9)),
          store->get()->AppendEnd(MakeEnd(9)), recorder.Snapshot(0)}) {
      ASSERT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
      ASSERT_EQ(refused.message(),
                absl::StrFormat("the store failed before (%s); restart to recover", std::string(failed.message())));
    }
    ASSERT_EQ(files.changes(), after) << files.operations().back();

    store->reset();
    files.Crash(Unsynced::kLost);
    store = OpenStore(files, recovered);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_NO_FATAL_FAILURE(ExpectAcknowledged(recovered, acknowledged));
  }
}

const absl::Status kFull = absl::ResourceExhaustedError("No space left on device");
const absl::Status kReadOnly = absl::PermissionDeniedError("Read-only file system");

// The disk refuses one change, or all from there on until the call has been made twice more; then the run goes on in
// the same process. A sync that fails for the same reason ends the process.
TEST(FaultTest, EveryRefusalOfTheDiskIsSurvivedAndEveryFailedSyncIsNot) {
  const int changes = ChangesOfAWholeRun();
  int survived = 0;
  int broken = 0;
  for (int at = 0; at < changes; ++at) {
    for (const absl::Status& error : {kFull, kReadOnly}) {
      for (const bool for_good : {false, true}) {
        SCOPED_TRACE(absl::StrFormat("change %d, %s, for good %d", at, error.ToString(), for_good));
        FaultFileSystem files(static_cast<uint64_t>(at + 1));
        RecoveredState recovered;
        absl::StatusOr<std::unique_ptr<Store>> store = OpenStore(files, recovered);
        const int to_open = files.changes();
        if (at < to_open) continue;
        files.FailAt(at - to_open, error, for_good);
        Recorder recorder(store->get());
        const absl::Status status = PlayRun(recorder, [&](const Call& call) {
          absl::Status made = call();
          if (made.ok() || StoreErrorOf(made) == StoreError::kBroken) return made;
          EXPECT_EQ(StoreErrorOf(made), error == kFull ? StoreError::kFull : StoreError::kReadOnly);
          EXPECT_THAT(std::string(made.message()), ::testing::EndsWith("(4096 bytes free)"));
          for (int again = 0; for_good && again < 2; ++again) EXPECT_EQ(StoreErrorOf(call()), StoreErrorOf(made));
          files.FailAt(std::numeric_limits<int>::max(), error);
          return call();
        });
        const bool was_sync = files.operations()[static_cast<size_t>(at)].starts_with("sync");
        ASSERT_EQ(status.ok(), !was_sync) << status;
        (status.ok() ? survived : broken) += 1;
        const Acknowledged acknowledged{recorder.expected(), recorder.expected_if_last_worked(), status.ok()};
        store->reset();
        files.Crash(Unsynced::kLost);
        store = OpenStore(files, recovered);
        ASSERT_TRUE(store.ok()) << store.status();
        if (status.ok()) {
          ASSERT_EQ(Summarise(recovered), recorder.expected());
        }
        ASSERT_NO_FATAL_FAILURE(ExpectAcknowledged(recovered, acknowledged));
        store->reset();
        ASSERT_NO_FATAL_FAILURE(ExpectGoesOn(files));
      }
    }
  }
  EXPECT_GT(survived, 200);
  EXPECT_GT(broken, 60);
}

// Read-only to the end: what the refused record left could not be cut, and is cut by the next start.
TEST(FaultTest, KilledWhileTheDiskIsReadOnlyLosesNothing) {
  const int changes = ChangesOfAWholeRun();
  for (int at = 0; at < changes; ++at) {
    SCOPED_TRACE(at);
    FaultFileSystem files(static_cast<uint64_t>(at + 1));
    files.FailAt(at, kReadOnly, /*for_good=*/true);
    const Acknowledged acknowledged = RunProcess(files);
    files.Kill();
    RecoveredState recovered;
    absl::StatusOr<std::unique_ptr<Store>> store = OpenStore(files, recovered);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_NO_FATAL_FAILURE(ExpectAcknowledged(recovered, acknowledged));
    store->reset();
    ASSERT_NO_FATAL_FAILURE(ExpectGoesOn(files));
  }
}

class RefusedSnapshotTest : public testing::Test {
 protected:
  void SetUp() override {
    store_ = *OpenStore(files_, recovered_);
    recorder_ = std::make_unique<Recorder>(store_.get());
    ASSERT_TRUE(recorder_->Run(MakeRun()).ok());
    ASSERT_TRUE(recorder_->Snapshot(0).ok());
    ASSERT_TRUE(recorder_->Delta(MakeDelta(0, 0)).ok());
    ASSERT_TRUE(recorder_->Delta(MakeDelta(1, 0)).ok());
  }
  void ExpectRecovers() {
    recorder_.reset();
    store_.reset();
    files_.Crash(Unsynced::kLost);
    store_ = *OpenStore(files_, recovered_);
  }

  FaultFileSystem files_;
  RecoveredState recovered_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Recorder> recorder_;
};

TEST_F(RefusedSnapshotTest, LeavesNoFileAndTheJournalGoesOn) {
  for (const std::string prefix : {"create data/snapshot", "append data/snapshot", "rename data/snapshot"}) {
    files_.FailOn(prefix, 0, kFull);
    ASSERT_EQ(StoreErrorOf(recorder_->Snapshot(1)), StoreError::kFull) << prefix;
    EXPECT_THAT(*files_.List(kFolder), ElementsAre("journal-0000000001", "snapshot-0000000001"));
    EXPECT_EQ(store_->NewestSnapshot()->header.version(), 0);
  }
  ASSERT_TRUE(recorder_->Delta(MakeDelta(0, 1)).ok());
  ASSERT_TRUE(recorder_->Snapshot(1).ok());
  const Expected expected = recorder_->expected();
  ExpectRecovers();
  EXPECT_EQ(Summarise(recovered_), expected);
}

TEST_F(RefusedSnapshotTest, WithoutRoomForTheNewJournalTheOldOneGoesOn) {
  files_.FailOn("append data/journal-0000000002", 0, kFull);
  ASSERT_TRUE(recorder_->Snapshot(1).ok());
  EXPECT_THAT(*files_.List(kFolder), ElementsAre("journal-0000000001", "snapshot-0000000001", "snapshot-0000000002"));
  ASSERT_TRUE(recorder_->Delta(MakeDelta(0, 1)).ok());
  ASSERT_TRUE(recorder_->Delta(MakeDelta(1, 1)).ok());
  ASSERT_TRUE(recorder_->Snapshot(2).ok());
  ASSERT_TRUE(recorder_->Snapshot(2).ok());
  EXPECT_THAT(*files_.List(kFolder),
              ElementsAre("journal-0000000003", "journal-0000000004", "snapshot-0000000003", "snapshot-0000000004"));
  const Expected expected = recorder_->expected();
  ExpectRecovers();
  EXPECT_EQ(Summarise(recovered_), expected);
}

TEST(FaultTest, FullDiskInMidRecordLosesNoPublishedRound) {
  // Every append of the third delta: record headers, payloads, padding, commit.
  for (int nth = 0;; ++nth) {
    SCOPED_TRACE(nth);
    FaultFileSystem files(static_cast<uint64_t>(nth + 1));
    RecoveredState recovered;
    absl::StatusOr<std::unique_ptr<Store>> store = OpenStore(files, recovered);
    ASSERT_TRUE(store.ok());
    Recorder recorder(store->get());
    ASSERT_TRUE(recorder.Run(MakeRun()).ok());
    ASSERT_TRUE(recorder.Snapshot(0).ok());
    ASSERT_TRUE(recorder.Delta(MakeDelta(0, 0, 3000)).ok());
    ASSERT_TRUE(recorder.Delta(MakeDelta(0, 1, 3000)).ok());
    files.FailOn("append", nth, absl::ResourceExhaustedError("no space left on device"));
    const absl::Status status = recorder.Delta(MakeDelta(0, 2, 3000));
    if (status.ok()) {
      EXPECT_EQ(nth, 2 * 3 + 2);  // Two chunks and the settled list, padding, commit.
      break;
    }
    EXPECT_TRUE(absl::IsResourceExhausted(status));
    const Acknowledged published{recorder.expected(), recorder.expected_if_last_worked(), false};

    // Space is back, and the next process goes on for two rounds.
    store->reset();
    files.Kill();
    store = OpenStore(files, recovered);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_NO_FATAL_FAILURE(ExpectAcknowledged(recovered, published));
    Recorder next(store->get(), recovered);
    if (recovered.deltas.size() == 2) {
      ASSERT_TRUE(next.Delta(MakeDelta(0, 2, 3000)).ok());
    }
    ASSERT_TRUE(next.Delta(MakeDelta(0, 3, 3000)).ok());
    store->reset();
    files.Crash(Unsynced::kLost);
    store = OpenStore(files, recovered);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_EQ(Summarise(recovered), next.expected());
  }
}

class OrderTest : public testing::Test {
 protected:
  void SetUp() override {
    store_ = *OpenStore(files_, recovered_);
    recorder_ = std::make_unique<Recorder>(store_.get());
    ASSERT_TRUE(recorder_->Run(MakeRun()).ok());
    ASSERT_TRUE(recorder_->Snapshot(0).ok());
    ASSERT_TRUE(recorder_->Delta(MakeDelta(0, 0)).ok());
  }
  // Operations since `from`, appends without their sizes and each run of them as one.
  std::vector<std::string> Operations(size_t from) const {
    std::vector<std::string> found;
    for (size_t i = from; i < files_.operations().size(); ++i) {
      std::string line = files_.operations()[i];
      if (line.starts_with("append ")) line.resize(line.rfind(' '));
      if (found.empty() || found.back() != line) found.push_back(std::move(line));
    }
    return found;
  }

  FaultFileSystem files_;
  RecoveredState recovered_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Recorder> recorder_;
};

TEST_F(OrderTest, RecordsAreDurableBeforeTheirCommit) {
  const size_t from = files_.operations().size();
  ASSERT_TRUE(recorder_->Delta(MakeDelta(1, 0)).ok());
  EXPECT_THAT(Operations(from), ElementsAre("append data/journal-0000000001", "sync data/journal-0000000001",
                                            "append data/journal-0000000001", "sync data/journal-0000000001"));
  EXPECT_EQ(files_.operations()[files_.operations().size() - 2], "append data/journal-0000000001 4096");
}

TEST_F(OrderTest, SmallRecordsTakeOneAppendAndOneSync) {
  const size_t from = files_.operations().size();
  ASSERT_TRUE(recorder_->Member(MakeMember("east", 1)).ok());
  EXPECT_THAT(Operations(from), ElementsAre("append data/journal-0000000001", "sync data/journal-0000000001"));
  EXPECT_EQ(files_.operations().size(), from + 2);
}

TEST_F(OrderTest, SnapshotIsDurableBeforeItsJournalAndThatBeforeAnythingIsDropped) {
  ASSERT_TRUE(recorder_->Delta(MakeDelta(1, 0)).ok());
  ASSERT_TRUE(recorder_->Delta(MakeDelta(0, 1)).ok());
  ASSERT_TRUE(recorder_->Snapshot(0).ok());
  const size_t from = files_.operations().size();
  ASSERT_TRUE(recorder_->Snapshot(1).ok());
  EXPECT_THAT(
      Operations(from),
      ElementsAre("create data/snapshot-0000000003.tmp", "append data/snapshot-0000000003.tmp",
                  "sync data/snapshot-0000000003.tmp", "rename data/snapshot-0000000003.tmp data/snapshot-0000000003",
                  "sync-folder data", "create data/journal-0000000003.tmp", "append data/journal-0000000003.tmp",
                  "sync data/journal-0000000003.tmp", "rename data/journal-0000000003.tmp data/journal-0000000003",
                  "sync-folder data", "remove data/snapshot-0000000001", "remove data/journal-0000000001"));
}

TEST_F(OrderTest, TheSnapshotOfANewGenerationComesBehindItsJournal) {
  const size_t from = files_.operations().size();
  ASSERT_TRUE(WriteGeneration(store_.get()).ok());
  EXPECT_THAT(Operations(from),
              ElementsAre("create data/snapshot-0000000002.tmp", "append data/snapshot-0000000002.tmp",
                          "sync data/snapshot-0000000002.tmp", "create data/journal-0000000002.tmp",
                          "append data/journal-0000000002.tmp", "sync data/journal-0000000002.tmp",
                          "rename data/journal-0000000002.tmp data/journal-0000000002", "sync-folder data",
                          "rename data/snapshot-0000000002.tmp data/snapshot-0000000002", "sync-folder data"));
}

}  // namespace
}  // namespace diloco
