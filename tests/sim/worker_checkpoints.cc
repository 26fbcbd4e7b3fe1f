// A worker's process and its checkpoints: written while it trains, loaded when it starts, and one more when it is told
// to stop.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "tests/sim/worker_life.h"
#include "tests/sim/worker_node.h"
#include "worker/checkpoint/resume_point.h"

namespace diloco::sim {
namespace {

// By then what the training thread has handed over before is with the sync thread.
constexpr absl::Duration kHandOverTime = absl::Milliseconds(1);

}  // namespace

// ---- The writer ----

WorkerNode::Checkpoints::Checkpoints(WorkerNode* node, CheckpointOwner owner, CheckpointFolder* folder)
    : node_(*node), owner_(std::move(owner)), folder_(*folder) {}

void WorkerNode::Checkpoints::Submit(WorkerCheckpoint checkpoint) {
  if (at_once_) return Write(checkpoint);
  auto shared = std::make_shared<const WorkerCheckpoint>(std::move(checkpoint));
  node_.Post(node_.random_.Between(absl::Microseconds(10), node_.options_.checkpoint_time),
             [this, shared] { Write(*shared); });
}

void WorkerNode::Checkpoints::Write(const WorkerCheckpoint& checkpoint) {
  const int64_t step = checkpoint.training.replica.step;
  node_.disk_.NoteBegun(step);
  const absl::Status status = WriteCheckpoint(owner_, checkpoint, node_.loop_, &folder_, &node_.own_->board);
  if (node_.disk_.has_died()) return node_.DieOfDisk();
  if (status.ok()) node_.disk_.NoteWritten();
  reserved_ = false;
}

void WorkerNode::DieOfDisk() {
  own_->exiting = true;
  witness_.Note(absl::StrCat(id(), " dies in the midst of a checkpoint"));
  Post(absl::ZeroDuration(), [this] { Die(false, dies_by_power_cut_); });
}

// ---- At the start ----

void WorkerNode::OpenFolder() {
  if (options_.checkpoint_every == 0) return;
  absl::StatusOr<std::unique_ptr<CheckpointFolder>> folder =
      CheckpointFolder::Open(disk_.files(), WorkerDisk::kFolder, id());
  if (disk_.has_died()) return DieOfDisk();
  if (!folder.ok()) return Exit(folder.status());
  own_->folder = *std::move(folder);
}

absl::Status WorkerNode::LoadCheckpoint() {
  if (own_->folder == nullptr || own_->afresh) return absl::OkStatus();
  absl::StatusOr<std::optional<WorkerCheckpoint>> loaded =
      LoadNewestCheckpoint({id(), incarnation_, &own_->config, &*own_->layout}, own_->folder.get());
  if (!loaded.ok()) return loaded.status();
  own_->resumed = *std::move(loaded);
  own_->has_work = own_->resumed.has_value();
  const std::optional<int64_t> step =
      own_->resumed ? std::optional<int64_t>(own_->resumed->training.replica.step) : std::nullopt;
  if (const std::optional<std::string> broken = disk_.CheckLoaded(step)) witness_.Fail(*broken);
  if (step) witness_.Note(absl::StrFormat("%s goes on from step %d", id(), *step));
  return absl::OkStatus();
}

// ---- At the end ----

void WorkerNode::Suspend() {
  if (!up() || own_->exiting || own_->leaving) return;
  witness_.Note(absl::StrCat(id(), " is told to stop"));
  own_->interrupted = true;
  // A wait notices it within a slice.
  Post(random_.Between(absl::ZeroDuration(), kWaitSlice), [this] {
    if (own_->exiting || own_->leaving) return;
    if (!own_->loop) return Exit(absl::CancelledError("interrupted"));
    if (own_->training_waits) TrainingTurn();
  });
}

void WorkerNode::EndTraining(const absl::Status& status) {
  if ((!absl::IsCancelled(status) && !absl::IsUnavailable(status)) || own_->exchange->BrokenDown()) {
    return Exit(status);
  }
  own_->board.Update([](WorkerStatus& board) { board.suspending = true; });
  Post(absl::Microseconds(20), [this] { HandleControl(HeartbeatWanted{}); });
  Post(kHandOverTime, [this, status] { FinishSuspension(status); });
}

void WorkerNode::FinishSuspension(const absl::Status& status) {
  if (own_->exiting) return;
  if (own_->checkpoints && !own_->checkpoints->AwaitIdle(loop_.Now())) {
    return Post(kHandOverTime, [this, status] { FinishSuspension(status); });
  }
  own_->suspending = true;
  if (own_->checkpoints) own_->checkpoints->WriteAtOnce();
  const absl::Status written = own_->loop->Suspend(loop_.Now());
  if (own_->exiting) return;  // It has died of it.
  if (!written.ok()) witness_.Note(absl::StrCat(id(), " makes no last checkpoint: ", written.ToString()));
  Exit(status);
}

}  // namespace diloco::sim
