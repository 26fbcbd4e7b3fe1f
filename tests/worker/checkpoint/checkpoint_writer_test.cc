#include "worker/checkpoint/checkpoint_writer.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/coordinator/store/fault_file_system.h"
#include "tests/worker/checkpoint/sample_checkpoint.h"

namespace diloco {
namespace {

class CheckpointWriterTest : public ::testing::Test {
 protected:
  CheckpointWriterTest() : folder_(*CheckpointFolder::Open(&files_, "f", "pid 1")) {
    writer_ = std::make_unique<CheckpointWriter>(folder_.get(), run_.owner(), &board_, &clock_);
  }
  MonotonicTime Soon() const { return clock_.Now() + absl::Seconds(60); }
  void Write(int64_t step) {
    ASSERT_TRUE(writer_->TryReserve());
    WorkerCheckpoint checkpoint = SampleCheckpoint();
    checkpoint.training.replica.step = step;
    writer_->Submit(std::move(checkpoint));
    ASSERT_TRUE(writer_->AwaitIdle(Soon()));
  }

  const SampleRun run_;
  const SteadyClock clock_;
  FaultFileSystem files_;
  StatusBoard board_;
  std::unique_ptr<CheckpointFolder> folder_;
  std::unique_ptr<CheckpointWriter> writer_;
};

TEST_F(CheckpointWriterTest, TakesOneAtATime) {
  ASSERT_TRUE(writer_->TryReserve());
  EXPECT_FALSE(writer_->TryReserve());
  EXPECT_FALSE(writer_->AwaitIdle(clock_.Now() + absl::Milliseconds(1)));
  writer_->Submit(SampleCheckpoint());
  EXPECT_TRUE(writer_->AwaitIdle(Soon()));
  EXPECT_TRUE(writer_->TryReserve());
}

TEST_F(CheckpointWriterTest, CountsWhatItWritesAndWhatItCannot) {
  EXPECT_EQ(board_.Get().checkpoint_step, -1);
  Write(4);
  EXPECT_EQ(board_.Get().checkpoints_written, 1);
  EXPECT_EQ(board_.Get().checkpoint_step, 4);
  files_.FailAt(1, absl::ResourceExhaustedError("no space left on device"));
  Write(8);
  EXPECT_EQ(board_.Get().checkpoints_failed, 1);
  EXPECT_EQ(board_.Get().checkpoints_written, 1);
  EXPECT_EQ(board_.Get().checkpoint_step, 4);
  EXPECT_EQ((*folder_->LoadNewest())->checkpoint.record.step(), 4);
  Write(12);
  EXPECT_EQ(board_.Get().checkpoint_step, 12);
}

TEST_F(CheckpointWriterTest, FinishesWhatItHasBeforeItEnds) {
  ASSERT_TRUE(writer_->TryReserve());
  writer_->Submit(SampleCheckpoint());
  writer_.reset();
  EXPECT_EQ((*folder_->LoadNewest())->checkpoint.record.step(), SampleCheckpoint().training.replica.step);
}

}  // namespace
}  // namespace diloco
