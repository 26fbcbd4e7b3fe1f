// Writes checkpoints in a thread of its own, one at a time, so that neither training nor the sync thread waits for a
// disk. Thread-safe.
#pragma once

#include <optional>
#include <thread>

#include "absl/time/time.h"

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/trace/trace.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_folder.h"
#include "worker/client/worker_status.h"

namespace diloco {

class CheckpointWriter {
 public:
  // Counts in `board` and logs what it writes, and what it cannot: then the checkpoints before are kept. The pointers,
  // those in `owner` too, outlive the object. `tracer` may be null.
  CheckpointWriter(CheckpointFolder* folder, CheckpointOwner owner, StatusBoard* board, const Clock* clock,
                   Tracer* tracer = nullptr);
  // Ends once the checkpoint that is being written is written.
  ~CheckpointWriter();

  // False while a checkpoint is on its way. True: the next one, which Submit brings, is.
  bool TryReserve();
  // After TryReserve.
  void Submit(WorkerCheckpoint checkpoint);
  // Waits until none is on its way. False: `deadline` came first.
  bool AwaitIdle(MonotonicTime deadline);

 private:
  void Run();
  void Write(const WorkerCheckpoint& checkpoint);

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
