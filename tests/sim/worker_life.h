// What a worker's process holds in memory, and loses when it ends.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "tests/sim/worker_node.h"
#include "worker/checkpoint/checkpoint_folder.h"
#include "worker/checkpoint/checkpoint_writer.h"
#include "worker/client/backoff.h"

namespace diloco::sim {

// CheckpointWriter without its thread: writing takes simulated time.
class WorkerNode::Checkpoints final : public CheckpointSink {
 public:
  Checkpoints(WorkerNode* node, CheckpointOwner owner, CheckpointFolder* folder);
  bool TryReserve() override { return !std::exchange(reserved_, true); }
  void Submit(WorkerCheckpoint checkpoint) override;
  // Nothing can wait here.
  bool AwaitIdle(MonotonicTime) override { return !reserved_; }
  // From now on Submit returns when it is done.
  void WriteAtOnce() { at_once_ = true; }

 private:
  void Write(const WorkerCheckpoint& checkpoint);

  WorkerNode& node_;
  const CheckpointOwner owner_;
  CheckpointFolder& folder_;
  bool reserved_ = false;
  bool at_once_ = false;
};

struct WorkerNode::Life {
  // `begins_afresh`: whatever the checkpoint folder has.
  Life(uint64_t seed, bool begins_afresh)
      : backoff_options{.seed = seed}, backoff(backoff_options), afresh(begins_afresh) {}

  void Prepare(const RunConfig& run, const QuadraticTrainer::Options& trainer_options) {
    config = run;
    trainer = std::make_unique<QuadraticTrainer>(trainer_options);
    layout = Layout::Cut(trainer->Tensors(), config.fragments.cut).value();
    trainer->SetLayout(*layout);
    board.Update([this](WorkerStatus& status) {
      status.rounds = config.run.rounds;
      status.steps = config.run.rounds * config.inner_steps;
    });
  }
  void SetState(const char* state) {
    board.Update([state](WorkerStatus& status) { status.state = state; });
  }

  Backoff::Options backoff_options;
  Backoff backoff;
  const bool afresh;
  RunConfig config;
  std::shared_ptr<const RunSettings> settings;
  std::unique_ptr<QuadraticTrainer> trainer;
  std::optional<Layout> layout;
  std::unique_ptr<CheckpointFolder> folder;  // nullptr: no checkpoints are made.
  std::optional<WorkerCheckpoint> resumed;   // Until training begins.
  bool has_work = false;                     // It went on from a checkpoint.
  v1::JoinRequest join;
  v1::JoinResponse joined;
  StatusBoard board;
  std::optional<Exchange> exchange;
  std::atomic<bool> interrupted = false;
  bool exiting = false;

  // The control thread.
  std::optional<ControlCore> control;
  std::shared_ptr<Stream> session;
  uint64_t session_call = 0;
  std::function<void(v1::SessionRequest)> session_in;  // Of the coordinator's end.
  std::deque<v1::SessionRequest> session_out;          // Before that is connected.
  uint64_t control_wakes = 0;
  bool seeding = false;
  std::shared_ptr<Stream> seed_stream;  // Whoever waits at the other end may go without a word.
  bool giving = false;                  // Its consensus, to a coordinator that lost its own.
  bool leaving = false;

  // The sync thread.
  std::optional<SyncCore> sync;
  struct UploadStream {
    uint64_t call = 0;
    std::shared_ptr<Stream> stream;
    std::optional<v1::UploadRequest> unsent;  // Before it is connected.
  };
  std::vector<UploadStream> uploads;  // By stream.
  uint64_t download_call = 0;
  std::shared_ptr<Stream> download;
  std::function<void()> deliver_next;  // The message that waits for ReadNext.
  bool reading = false;
  uint64_t sync_wakes = 0;

  // The training thread.
  WorkerOptions loop_options;
  std::optional<Checkpoints> checkpoints;
  bool suspending = false;  // What the training thread hands over, the sync thread takes at once.
  std::optional<TrainingLoop> loop;
  bool training_waits = false;
  bool wake_posted = false;
  uint64_t waits = 0;
};

}  // namespace diloco::sim
