// Writes checkpoints in a thread of its own, one at a time, so that neither training nor the sync thread waits for a
// disk. Thread-safe.
#pragma once

#include <optional>
#include <thread>

#include "absl/status/status.h"

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/trace/trace.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_folder.h"
#include "worker/client/worker_status.h"

namespace diloco {

// Who is given checkpoints to write: CheckpointWriter, or a simulated cluster's in its place, which has no threads.
class CheckpointSink {
 public:
  virtual ~CheckpointSink() = default;
  // False while a checkpoint is on its way. True: the next one, which Submit brings, is.
  virtual bool TryReserve() = 0;
  // After TryReserve.
  virtual void Submit(WorkerCheckpoint checkpoint) = 0;
  // Waits until none is on its way. False: `deadline` came first.
  virtual bool AwaitIdle(MonotonicTime deadline) = 0;
};

// Writes one, and counts in `board` and logs what became of it. After an error the ones before are kept.
absl::Status WriteCheckpoint(const CheckpointOwner& owner, const WorkerCheckpoint& checkpoint, const Clock& clock,
                             CheckpointFolder* folder, StatusBoard* board);

class CheckpointWriter final : public CheckpointSink {
 public:
  // The pointers, those in `owner` too, outlive the object. `tracer` may be null.
  CheckpointWriter(CheckpointFolder* folder, CheckpointOwner owner, StatusBoard* board, const Clock* clock,
                   Tracer* tracer = nullptr);
  // Ends once the checkpoint that is being written is written.
  ~CheckpointWriter() override;

  bool TryReserve() override;
  void Submit(WorkerCheckpoint checkpoint) override;
  bool AwaitIdle(MonotonicTime deadline) override;

 private:
  void Run();

  CheckpointFolder* const folder_;
  const CheckpointOwner owner_;
  StatusBoard* const board_;
  const Clock* const clock_;
  Tracer* const tracer_;
  const Tracer::Track track_;

  Mutex mutex_;
  CondVar changed_;
  bool reserved_ ABSL_GUARDED_BY(mutex_) = false;  // Until it is written.
  std::optional<WorkerCheckpoint> submitted_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace diloco
