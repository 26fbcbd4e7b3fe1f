#include "worker/checkpoint/checkpoint_writer.h"

#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/log/log.h"

namespace diloco {

absl::Status WriteCheckpoint(const CheckpointOwner& owner, const WorkerCheckpoint& checkpoint, const Clock& clock,
                             CheckpointFolder* folder, StatusBoard* board) {
  const MonotonicTime start = clock.Now();
  const ReplicaState& replica = checkpoint.training.replica;
  const int64_t round = replica.step / owner.config->inner_steps;
  const CheckpointContent content = DescribeCheckpoint(owner, checkpoint);
  const absl::StatusOr<std::string> path = folder->Write(content);
  const double seconds = absl::ToDoubleSeconds(clock.Now() - start);
  board->Update([seconds](WorkerStatus& status) { status.checkpoint_seconds += seconds; });
  if (!path.ok()) {
    LogError("checkpoint_failed", {{"step", replica.step}, {"round", round}, {"reason", path.status().ToString()}});
    board->Update([](WorkerStatus& status) { ++status.checkpoints_failed; });
    return path.status();
  }
  LogInfo("checkpoint_written", {{"path", *path},
                                 {"step", replica.step},
                                 {"round", round},
                                 {"version", checkpoint.sync.fragments.front().outer.consensus.version()},
                                 {"seconds", seconds}});
  board->Update([&](WorkerStatus& status) {
    ++status.checkpoints_written;
    status.checkpoint_step = replica.step;
  });
  return absl::OkStatus();
}

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
    {
      const int64_t step = checkpoint->training.replica.step;
      const TraceSlice slice(tracer_, track_, "checkpoint",
                             {{"round", step / owner_.config->inner_steps}, {"step", step}});
      WriteCheckpoint(owner_, *checkpoint, *clock_, folder_, board_).IgnoreError();  // Logged; the next may succeed.
    }
    checkpoint.reset();  // Before another one is made.
    MutexLock lock(&mutex_);
    reserved_ = false;
    changed_.NotifyAll();
  }
}

}  // namespace diloco
