// What a store promises while nothing is damaged: what was appended is there after a restart, one process at a time.
#include "coordinator/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_format.h"

#include "tests/coordinator/store/fault_file_system.h"
#include "tests/coordinator/store/store_fixture.h"

namespace diloco {
namespace {

using ::testing::IsEmpty;

// Each test runs on files in memory and on real ones.
class StoreTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!GetParam()) {
      std::string path = absl::StrFormat("%s/diloco_store_XXXXXX", testing::TempDir());
      ASSERT_NE(mkdtemp(path.data()), nullptr);
      root_ = path;
      folder_ = absl::StrFormat("%s/deep/data", path);
    }
  }
  void TearDown() override {
    store_.reset();
    if (!root_.empty()) std::filesystem::remove_all(root_);
  }

  FileSystem* files() { return GetParam() ? static_cast<FileSystem*>(&memory_) : PosixFileSystem(); }
  absl::Status Open() {
    store_.reset();
    recovered_ = RecoveredState();
    absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(
        files(), StoreOptions{.folder = folder_, .holder = "diloco-coordinator pid 1 on here"}, &recovered_);
    if (store.ok()) store_ = *std::move(store);
    return store.status();
  }
  std::vector<std::string> Names() { return *files()->List(folder_); }

  FaultFileSystem memory_;
  std::string root_;
  std::string folder_ = kFolder;
  std::unique_ptr<Store> store_;
  RecoveredState recovered_;
};

TEST_P(StoreTest, FreshFolderIsCreatedAndEmpty) {
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Summarise(recovered_), Expected());
  EXPECT_THAT(recovered_.warnings, IsEmpty());
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->NewestSnapshot().status()));
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Summarise(recovered_), Expected());
}

TEST_P(StoreTest, EverythingAppendedIsThereAfterRestart) {
  ASSERT_TRUE(Open().ok());
  Recorder recorder(store_.get());
  ASSERT_TRUE(recorder.Run(MakeRun()).ok());
  ASSERT_TRUE(recorder.Member(MakeMember("east", 1)).ok());
  ASSERT_TRUE(recorder.Member(MakeMember("west", 2)).ok());
  ASSERT_TRUE(recorder.Snapshot(0).ok());
  for (int64_t round = 0; round < 3; ++round) {
    for (int fragment = 0; fragment < kFragments; ++fragment) {
      ASSERT_TRUE(recorder.Delta(MakeDelta(fragment, round)).ok());
    }
  }
  ASSERT_TRUE(recorder.Member(MakeMember("east", 3)).ok());
  ASSERT_TRUE(recorder.Evaluation(MakeEvaluation(2, 1.5)).ok());
  ASSERT_TRUE(recorder.End(MakeEnd(3)).ok());

  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Summarise(recovered_), recorder.expected());
  EXPECT_EQ(recovered_.consensus, MakeConsensus(0));
  EXPECT_THAT(recovered_.warnings, IsEmpty());
  const PublishedDelta& last = *recovered_.deltas.back();
  EXPECT_EQ(last.fragment, 1);
  EXPECT_EQ(last.round, 2);
  EXPECT_EQ(last.commit.SerializeAsString(), MakeDelta(1, 2)->commit.SerializeAsString());
  EXPECT_EQ(last.settled.SerializeAsString(), MakeDelta(1, 2)->settled.SerializeAsString());
  EXPECT_EQ(last.size_bytes(), MakeDelta(1, 2)->size_bytes());
}

TEST_P(StoreTest, RecordsOfEverySizeSurvive) {
  ASSERT_TRUE(Open().ok());
  Recorder recorder(store_.get());
  // Around what fits a commit block, and a run whose layout is large.
  for (const size_t bytes : {size_t{0}, size_t{3990}, size_t{4010}, size_t{4032}, size_t{4096}, size_t{9000000}}) {
    ASSERT_TRUE(recorder.Run(MakeRun(bytes)).ok());
    ASSERT_TRUE(Open().ok());
    EXPECT_EQ(Summarise(recovered_), recorder.expected()) << bytes;
    recorder = Recorder(store_.get(), recovered_);
  }
  ASSERT_TRUE(recorder.Snapshot(0, 700000).ok());  // Several pieces.
  for (int chunks = 0; chunks < 4; ++chunks) {     // 0: an average without elements.
    ASSERT_TRUE(recorder.Delta(MakeDelta(0, chunks, size_t{1} << 20, chunks)).ok());
  }
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Summarise(recovered_), recorder.expected());
  EXPECT_EQ(recovered_.consensus, MakeConsensus(0, 700000));
}

TEST_P(StoreTest, SnapshotCarriesAResidualBehindTheConsensus) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(store_->AppendRun(MakeRun()).ok());
  v1::SnapshotRecord header;
  *header.mutable_run() = MakeRun();
  header.set_consensus_bytes(3 * sizeof(float));
  header.set_residual_bytes(2 * sizeof(float));
  const std::vector<float> consensus = {1, 2, 3};
  const std::vector<float> residual = {-4, -5};
  const std::vector<absl::Span<const float>> arrays = {consensus, residual};
  ASSERT_TRUE(store_->WriteSnapshot(header, arrays, {}).ok());
  ASSERT_TRUE(Open().ok());
  EXPECT_THAT(recovered_.consensus, ::testing::ElementsAre(1, 2, 3, -4, -5));
  EXPECT_EQ(recovered_.snapshot->residual_bytes(), 2 * sizeof(float));
}

TEST_P(StoreTest, SnapshotReplacesWhatItCovers) {
  ASSERT_TRUE(Open().ok());
  Recorder recorder(store_.get());
  ASSERT_TRUE(recorder.Run(MakeRun()).ok());
  ASSERT_TRUE(recorder.Snapshot(0).ok());
  ASSERT_TRUE(recorder.Delta(MakeDelta(0, 0)).ok());
  ASSERT_TRUE(recorder.Delta(MakeDelta(1, 0)).ok());
  ASSERT_TRUE(recorder.Delta(MakeDelta(0, 1)).ok());
  ASSERT_TRUE(recorder.Evaluation(MakeEvaluation(1, 2.5)).ok());
  ASSERT_TRUE(recorder.Snapshot(1).ok());
  ASSERT_TRUE(recorder.Delta(MakeDelta(1, 1)).ok());
  EXPECT_EQ(recorder.expected().deltas.size(), 2u);

  const absl::StatusOr<Store::SnapshotFile> newest = store_->NewestSnapshot();
  ASSERT_TRUE(newest.ok());
  EXPECT_EQ(newest->header.version(), 1);
  const std::vector<float> consensus = MakeConsensus(1);
  std::vector<float> read(consensus.size());
  ASSERT_EQ(*(*files()->OpenForRead(newest->path))
                 ->ReadAt(newest->consensus_offset, reinterpret_cast<char*>(read.data()), read.size() * sizeof(float)),
            read.size() * sizeof(float));
  EXPECT_EQ(read, consensus);

  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Summarise(recovered_), recorder.expected());
  EXPECT_EQ(recovered_.consensus, consensus);
  const absl::StatusOr<Store::SnapshotFile> reopened = store_->NewestSnapshot();
  ASSERT_TRUE(reopened.ok());
  EXPECT_EQ(reopened->path, newest->path);
  EXPECT_EQ(reopened->consensus_offset, newest->consensus_offset);
  EXPECT_EQ(reopened->header.SerializeAsString(), newest->header.SerializeAsString());
}

TEST_P(StoreTest, KeepsTwoSnapshotsAndTheirJournals) {
  ASSERT_TRUE(Open().ok());
  Recorder recorder(store_.get());
  ASSERT_TRUE(recorder.Run(MakeRun()).ok());
  for (int64_t version = 0; version < 5; ++version) {
    ASSERT_TRUE(recorder.Snapshot(version).ok());
    ASSERT_TRUE(recorder.Delta(MakeDelta(0, version)).ok());
    ASSERT_TRUE(recorder.Delta(MakeDelta(1, version)).ok());
  }
  std::vector<std::string> names = Names();
  std::erase(names, "LOCK");
  EXPECT_EQ(names, (std::vector<std::string>{"journal-0000000004", "journal-0000000005", "snapshot-0000000004",
                                             "snapshot-0000000005"}));
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Summarise(recovered_), recorder.expected());
}

TEST_P(StoreTest, EndIsThereAfterASnapshotBehindIt) {
  ASSERT_TRUE(Open().ok());
  Recorder recorder(store_.get());
  ASSERT_TRUE(recorder.Run(MakeRun()).ok());
  ASSERT_TRUE(recorder.Snapshot(0).ok());
  ASSERT_TRUE(recorder.Delta(MakeDelta(0, 0)).ok());
  ASSERT_TRUE(recorder.End(MakeEnd(1)).ok());
  ASSERT_TRUE(recorder.Snapshot(1).ok());
  for (int restart = 0; restart < 2; ++restart) {
    ASSERT_TRUE(Open().ok());
    ASSERT_TRUE(recovered_.end != nullptr);
    EXPECT_EQ(recovered_.end->SerializeAsString(), MakeEnd(1).SerializeAsString());
    EXPECT_TRUE(recovered_.snapshot->ended());
    Recorder again(store_.get(), recovered_);
    ASSERT_TRUE(again.Snapshot(1).ok());
  }
}

TEST_P(StoreTest, OtherFilesInTheFolderAreLeftAlone) {
  ASSERT_TRUE(Open().ok());
  for (const char* const name : {"notes.txt", "journal-1", "journal-00000000011", "snapshot-000000000x", "x.tmp"}) {
    ASSERT_TRUE(files()->Create(absl::StrFormat("%s/%s", folder_, name)).ok());
  }
  const std::vector<std::string> before = Names();
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Names(), before);
}

TEST_P(StoreTest, SecondHolderIsRefusedAndNamesTheFirst) {
  ASSERT_TRUE(Open().ok());
  RecoveredState other;
  const absl::Status status =
      Store::Open(files(), StoreOptions{.folder = folder_, .holder = "diloco-coordinator pid 2 on there"}, &other)
          .status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(status.message(), absl::StrFormat("data folder \"%s\" is held by \"diloco-coordinator pid 1 on here\"; "
                                              "stop it or use another --data-dir",
                                              folder_));
  store_.reset();
  EXPECT_TRUE(
      Store::Open(files(), StoreOptions{.folder = folder_, .holder = "diloco-coordinator pid 2 on there"}, &other)
          .ok());
}

INSTANTIATE_TEST_SUITE_P(Files, StoreTest, testing::Bool(),
                         [](const auto& param_info) { return param_info.param ? "InMemory" : "OnDisk"; });

}  // namespace
}  // namespace diloco
