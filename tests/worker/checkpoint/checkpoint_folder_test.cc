// Files of checkpoints: damaged at every byte, cut at every byte, and written while the disk fails.
#include "worker/checkpoint/checkpoint_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

#include "common/base/crc32c.h"
#include "tests/coordinator/store/fault_file_system.h"
#include "tests/worker/checkpoint/sample_checkpoint.h"

namespace diloco {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFolder[] = "run/east";

class CheckpointFolderTest : public ::testing::Test {
 protected:
  void Open() {
    folder_.reset();
    absl::StatusOr<std::unique_ptr<CheckpointFolder>> opened = CheckpointFolder::Open(&files_, kFolder, "pid 1");
    ASSERT_TRUE(opened.ok()) << opened.status();
    folder_ = *std::move(opened);
  }
  absl::Status Write(int64_t step) {
    WorkerCheckpoint checkpoint = SampleCheckpoint();
    checkpoint.training.replica.step = step;
    return folder_->Write(DescribeCheckpoint(run_.owner(), checkpoint)).status();
  }
  // Step of the newest good one, as the next process finds it; -1: none.
  int64_t NewestStep() {
    Open();
    const absl::StatusOr<std::optional<CheckpointFolder::Found>> found = folder_->LoadNewest();
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() && found->has_value() ? (*found)->checkpoint.record.step() : -1;
  }
  std::vector<std::string> Names() { return *files_.List(kFolder); }
  static std::string Path(int number) { return absl::StrFormat("%s/checkpoint-%08d", kFolder, number); }

  const SampleRun run_;
  FaultFileSystem files_;
  std::unique_ptr<CheckpointFolder> folder_;
};

TEST_F(CheckpointFolderTest, StartsEmpty) { EXPECT_EQ(NewestStep(), -1); }

TEST_F(CheckpointFolderTest, KeepsTheTwoNewest) {
  Open();
  for (int64_t step = 0; step < 4; ++step) ASSERT_TRUE(Write(step).ok());
  EXPECT_THAT(Names(), ElementsAre("checkpoint-00000002", "checkpoint-00000003"));
  EXPECT_EQ(NewestStep(), 3);
  ASSERT_TRUE(Write(4).ok());
  EXPECT_THAT(Names(), ElementsAre("checkpoint-00000003", "checkpoint-00000004"));
}

TEST_F(CheckpointFolderTest, SyncsTheFileThenRenamesThenSyncsTheFolder) {
  Open();
  ASSERT_TRUE(Write(0).ok());
  std::vector<std::string> order;
  for (const std::string& line : files_.operations()) {
    const std::string verb = line.substr(0, line.find(' '));
    if (line.find("checkpoint-") != std::string::npos || verb == "sync-folder") {
      if (order.empty() || order.back() != verb) order.push_back(verb);
    }
  }
  EXPECT_THAT(order, ::testing::IsSupersetOf({std::string("create"), std::string("append"), std::string("sync"),
                                              std::string("rename"), std::string("sync-folder")}));
  ASSERT_GE(order.size(), 5u);
  EXPECT_THAT(std::vector<std::string>(order.end() - 5, order.end()),
              ElementsAre("create", "append", "sync", "rename", "sync-folder"));
}

TEST_F(CheckpointFolderTest, FallsBackWhereverTheNewestIsCut) {
  Open();
  ASSERT_TRUE(Write(1).ok());
  ASSERT_TRUE(Write(2).ok());
  const std::string whole = files_.Contents(Path(1));
  for (size_t size = 0; size < whole.size(); ++size) {
    files_.SetContents(Path(1), whole.substr(0, size));
    const absl::Status status = ReadCheckpointFile(&files_, Path(1)).status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << size << " " << status;
    ASSERT_THAT(std::string(status.message()),
                HasSubstr(absl::StrFormat("\"%s\" is damaged at byte %d:", Path(1), size)));
    ASSERT_EQ(NewestStep(), 1) << size;
  }
  files_.SetContents(Path(1), whole + "x");
  EXPECT_EQ(NewestStep(), 1);
  files_.SetContents(Path(1), whole);
  EXPECT_EQ(NewestStep(), 2);
}

TEST_F(CheckpointFolderTest, FallsBackWhateverByteOfTheNewestIsDamaged) {
  Open();
  ASSERT_TRUE(Write(1).ok());
  ASSERT_TRUE(Write(2).ok());
  const std::string whole = files_.Contents(Path(1));
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    files_.SetContents(Path(1), damaged);
    ASSERT_EQ(NewestStep(), 1) << at;
  }
}

TEST_F(CheckpointFolderTest, JoinsAfreshWhenBothAreDamaged) {
  Open();
  ASSERT_TRUE(Write(1).ok());
  ASSERT_TRUE(Write(2).ok());
  files_.SetContents(Path(0), "not a checkpoint");
  files_.SetContents(Path(1), "");
  EXPECT_EQ(NewestStep(), -1);
  // Damaged ones do not count as kept.
  ASSERT_TRUE(Write(3).ok());
  EXPECT_THAT(Names(), ElementsAre("checkpoint-00000002"));
  EXPECT_EQ(NewestStep(), 3);
}

TEST_F(CheckpointFolderTest, AnotherFormatVersionIsNotPassedOver) {
  Open();
  ASSERT_TRUE(Write(1).ok());
  std::string bytes = files_.Contents(Path(0));
  bytes[12] = 9;  // The version, and the header's checksum over it.
  const uint32_t crc = ComputeCrc32c(std::string_view(bytes).substr(12, 24)).value;
  for (size_t i = 0; i < 4; ++i) bytes[8 + i] = static_cast<char>(crc >> (8 * i));
  files_.SetContents(Path(0), bytes);
  Open();
  const absl::Status status = folder_->LoadNewest().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("format version 9"));
}

TEST_F(CheckpointFolderTest, AFullDiskLeavesTheOlderOnes) {
  Open();
  ASSERT_TRUE(Write(1).ok());
  ASSERT_TRUE(Write(2).ok());
  const int before = files_.changes();
  ASSERT_TRUE(Write(3).ok());
  const int changes = files_.changes() - before - 1;  // The removal of the oldest is the last.
  for (int fault = 0; fault < changes; ++fault) {
    files_.FailAt(fault, absl::ResourceExhaustedError("no space left on device"));
    ASSERT_FALSE(Write(4).ok()) << fault;
    ASSERT_EQ(NewestStep(), 3) << fault;
    EXPECT_THAT(Names(), ElementsAre("checkpoint-00000001", "checkpoint-00000002")) << fault;
  }
  EXPECT_TRUE(Write(4).ok());
  EXPECT_EQ(NewestStep(), 4);
}

// The newest one that Write acknowledged, or the one that was being written.
TEST(CheckpointFolderCrashTest, APowerCutAtAnyMomentLeavesAGoodOne) {
  using Unsynced = FaultFileSystem::Unsynced;
  const SampleRun run;
  std::set<int64_t> found_steps;
  for (const Unsynced unsynced :
       {Unsynced::kLost, Unsynced::kPrefix, Unsynced::kZeros, Unsynced::kRandomBlocks, Unsynced::kWritten}) {
    for (int at = 0; at < 40; ++at) {
      FaultFileSystem files(static_cast<uint64_t>(at) + 1);
      int64_t acknowledged = -1;
      {
        auto folder = CheckpointFolder::Open(&files, kFolder, "pid 1");
        ASSERT_TRUE(folder.ok());
        files.FailAt(at, absl::AbortedError("the power is gone"), /*for_good=*/true);
        for (int64_t step = 0; step < 4; ++step) {
          WorkerCheckpoint checkpoint = SampleCheckpoint();
          checkpoint.training.replica.step = step;
          if (!(*folder)->Write(DescribeCheckpoint(run.owner(), checkpoint)).ok()) break;
          acknowledged = step;
        }
      }
      files.Crash(unsynced);
      auto folder = CheckpointFolder::Open(&files, kFolder, "pid 2");
      ASSERT_TRUE(folder.ok()) << folder.status();
      const auto found = (*folder)->LoadNewest();
      ASSERT_TRUE(found.ok()) << found.status();
      const int64_t step = found->has_value() ? (*found)->checkpoint.record.step() : -1;
      EXPECT_GE(step, acknowledged) << "change " << at;
      EXPECT_LE(step, acknowledged + 1) << "change " << at;
      found_steps.insert(step);
    }
  }
  EXPECT_THAT(found_steps, ElementsAre(-1, 0, 1, 2, 3));
}

TEST_F(CheckpointFolderTest, IsHeldByOneProcess) {
  Open();
  const absl::Status status = CheckpointFolder::Open(&files_, kFolder, "pid 2").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"run/east\" is held by \"pid 1\""));
}

}  // namespace
}  // namespace diloco
