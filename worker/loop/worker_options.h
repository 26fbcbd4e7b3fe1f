// What differs by machine: everything else comes from the coordinator.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "common/base/limits.h"
#include "common/config/run_config.h"
#include "common/files/file_system.h"
#include "common/tls/tls_files.h"
#include "common/trace/trace.h"
#include "worker/client/backoff.h"
#include "worker/client/upload_machine.h"
#include "worker/client/worker_status.h"
#include "worker/sync/sync_core.h"
#include "worker/trainer/trainer.h"

namespace diloco {

// A stop of one or more fragments, when it is over. Spans live during the call only.
struct StopReport {
  int64_t step = 0;        // Inner steps done.
  int64_t round = 0;       // Of the fragments that stop; they agree on it.
  int64_t next_round = 0;  // The round of the run in which training goes on; `run.rounds`: none.
  int64_t version = 0;     // Oldest version in the parameters.
  bool finite = true;      // False: the outer gradient was not, and the worker healed itself.
  bool waited = false;     // What the stop needs was not there yet.
  double blocked_seconds = 0;
  absl::Span<const float> theta;  // The flat vector, each fragment as of its newest stop.
};

struct WorkerOptions {
  std::string coordinator;   // HOST:PORT.
  TlsFiles tls;              // Not given: plaintext. Else a certificate of this worker.
  std::string run_id;        // Empty: whatever run the coordinator has.
  std::string worker_id;     // See ValidateName.
  uint64_t incarnation = 0;  // 0: drawn at random.
  std::string software_version = DILOCO_VERSION;

  absl::Duration connect_timeout = absl::Seconds(30);  // At start.
  absl::Duration give_up_after = absl::Minutes(30);    // Later, without a word from the coordinator.
  const std::atomic<bool>* interrupt = nullptr;        // Set from a signal handler, say. May be null.

  // Where the worker's checkpoints lie, and are gone on from; empty: none are made. One is written every
  // `checkpoint_every` rounds, >= 1, and when the worker ends early but not for an error of its own.
  std::string checkpoint_folder;
  int64_t checkpoint_every = 10;
  FileSystem* files = PosixFileSystem();

  // Kept true from the first call to the last, for whoever asks when it wants to; outlives the call. Null: a private
  // one.
  StatusBoard* board = nullptr;
  // From the training thread, after a step or a stop, at most every progress_interval, and at the end.
  std::function<void(const WorkerStatus&)> on_progress;
  absl::Duration progress_interval = absl::Seconds(1);
  // From the training thread.
  std::function<void(const StopReport&)> on_stop;
  // From the training thread, when a stop's averages are not there and it begins to wait. Must not block.
  std::function<void(int64_t round)> on_wait;
  // From the sync thread, once the version is staged for the fragment's next stop.
  ConsensusObserver on_consensus;

  // What the worker did, as slices. May be null; outlives the worker.
  Tracer* tracer = nullptr;

  // Protocol settings that only tests change.
  absl::Duration leave_timeout = absl::Seconds(10);  // For the coordinator's word that the last report is taken.
  uint64_t chunk_bytes = kMaxChunkBytes;
  Backoff::Options backoff;
  UploadMachine::Options upload;  // Streams, rate and backoff are set from elsewhere.
};

// Makes the trainer of a run. Called in the training thread, once for each time that the worker joins as a new member.
using TrainerFactory = std::function<absl::StatusOr<std::unique_ptr<Trainer>>(const RunConfig& config)>;

}  // namespace diloco
