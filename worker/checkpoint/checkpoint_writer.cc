#include "worker/checkpoint/checkpoint_writer.h"

#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/log/log.h"

namespace diloco {

CheckpointWriter::CheckpointWriter(CheckpointFolder* folder, CheckpointOwner owner, StatusBoard* board,
                                   const Clock* clock, Tracer* tracer)
    : folder_(folder),
      owner_(std::move(owner)),
      board_(board),
      clock_(clock),
      tracer_(tracer),
      track_(tracer == nullptr ? 0 : tracer->AddTrack("checkpoint")) {
  thread_ = std::thread([this] { Run(); });
}

CheckpointWriter::~CheckpointWriter() {
  {
    MutexLock lock(&mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

bool CheckpointWriter::TryReserve() {
  MutexLock lock(&mutex_);
  return !std::exchange(reserved_, true);
}

void CheckpointWriter::Submit(WorkerCheckpoint checkpoint) {
  MutexLock lock(&mutex_);
  DILOCO_CHECK(reserved_ && !submitted_);
  submitted_.emplace(std::move(checkpoint));
  changed_.NotifyAll();
}

bool CheckpointWriter::AwaitIdle(MonotonicTime deadline) {
  MutexLock lock(&mutex_);
  bool in_time = true;
  while (reserved_ && in_time) in_time = changed_.WaitUntil(&mutex_, ToSteady(deadline));
  return !reserved_;
}

void CheckpointWriter::Run() {
  while (true) {
    std::optional<WorkerCheckpoint> checkpoint;
    {
      MutexLock lock(&mutex_);
      while (!submitted_ && !closed_) changed_.Wait(&mutex_);
      if (!submitted_) return;
      checkpoint.swap(submitted_);
    }
    Write(*checkpoint);
    checkpoint.reset();  // Before another one is made.
    MutexLock lock(&mutex_);
    reserved_ = false;
    changed_.NotifyAll();
  }
}

void CheckpointWriter::Write(const WorkerCheckpoint& checkpoint) {
  const MonotonicTime start = clock_->Now();
  const ReplicaState& replica = checkpoint.training.replica;
  const int64_t round = replica.step / owner_.config->inner_steps;
  const TraceSlice slice(tracer_, track_, "checkpoint", {{"round", round}, {"step", replica.step}});
  const CheckpointContent content = DescribeCheckpoint(owner_, checkpoint);
  const absl::StatusOr<std::string> path = folder_->Write(content);
  const double seconds = absl::ToDoubleSeconds(clock_->Now() - start);
  board_->Update([seconds](WorkerStatus& status) { status.checkpoint_seconds += seconds; });
  if (!path.ok()) {
    LogError("checkpoint_failed", {{"step", replica.step}, {"round", round}, {"reason", path.status().ToString()}});
    board_->Update([](WorkerStatus& status) { ++status.checkpoints_failed; });
    return;
  }
  LogInfo("checkpoint_written", {{"path", *path},
                                 {"step", replica.step},
                                 {"round", round},
                                 {"version", checkpoint.sync.fragments.front().outer.consensus.version()},
                                 {"seconds", seconds}});
  board_->Update([&](WorkerStatus& status) {
    ++status.checkpoints_written;
    status.checkpoint_step = replica.step;
  });
}

}  // namespace diloco
