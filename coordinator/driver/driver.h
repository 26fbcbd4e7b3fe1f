// The coordinator's single driver: requests and ticks go in, RoundMachine::Step decides, and the driver carries out
// the effects against the store, the merge and the subscribers. It starts syncs and merges and takes their completion
// as events; it never waits for one.
//
// Requests are the wire's own messages, already complete and size-checked by the service, which holds no state. Every
// public method is thread-safe: it enqueues and returns. `reply` is called exactly once, on the driver's thread (or
// before the method returns, when the request is turned away), and must not block. Run() is the thread's body. (A
// simulated cluster calls RunUntilIdle() instead.)
//
// Errors follow proto/diloco/v1/worker.proto and admin.proto; kUnavailable while shutting down and after the store
// failed; kResourceExhausted when kMaxDriverQueue requests wait.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/base/clock.h"
#include "common/config/run_config.h"
#include "coordinator/driver/delta_queue.h"
#include "coordinator/driver/driver_observer.h"
#include "coordinator/driver/executor.h"
#include "coordinator/store/store.h"
#include "diloco/v1/admin.pb.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {

template <typename Response>
using Reply = std::function<void(absl::StatusOr<Response>)>;

struct DriverOptions {
  RunConfig config;
  std::string config_yaml;        // Verbatim, as handed to workers.
  std::string checkpoint_folder;  // Final and saved checkpoints go into sub-folders of it.
};

// The world around the driver. Everything outlives it.
struct DriverWorld {
  const Clock* clock = nullptr;
  FileSystem* files = nullptr;         // For checkpoints.
  Store* store = nullptr;              // Used on `disk` only, once the driver runs.
  Executor* disk = nullptr;            // One thread, in order.
  Executor* pool = nullptr;            // Any number of threads.
  DriverObserver* observer = nullptr;  // Metrics and log.
};

class Driver {
 public:
  // Starts from what the store recovered, before the port opens: replays the global deltas onto the snapshot.
  // Errors: kFailedPrecondition when the folder holds another run, or one with another layout, method or codecs;
  // kDataLoss when a consensus digest does not come out as recorded.
  static absl::StatusOr<std::unique_ptr<Driver>> Create(DriverOptions options, DriverWorld world,
                                                        RecoveredState recovered);
  ~Driver();

  // The thread's body; returns after Shutdown(), when nothing of its own is in flight on the executors.
  void Run();
  void Shutdown();
  // Handles everything queued and due, without waiting. Not together with Run(). `due`: when it was to be called at the
  // latest, so that a process that stood still finds out, as Run() does; now, where that is later or absent.
  void RunUntilIdle(std::optional<MonotonicTime> due = std::nullopt);
  // When RunUntilIdle is due next, on the world's clock, if nothing is queued before.
  MonotonicTime NextWakeUp() const;

  void DescribeRun(v1::DescribeRunRequest request, Reply<v1::DescribeRunResponse> reply);
  void Join(v1::JoinRequest request, Reply<v1::JoinResponse> reply);

  // A session: `send` is called with every directive that differs from the last one sent, and after each heartbeat.
  // `close` ends it from this side, once: kAborted (not a member under this incarnation, or a newer session of the
  // worker took over), kPermissionDenied (evicted), kInvalidArgument, kNotFound (another run), kUnavailable. Both may
  // still be called while CloseSession is queued: the service keeps alive what they use. Heartbeats that find the queue
  // full are dropped.
  struct SessionSink {
    std::function<void(v1::SessionResponse)> send;
    std::function<void(absl::Status)> close;
  };
  using SessionToken = uint64_t;
  SessionToken OpenSession(SessionSink sink);
  void SessionMessage(SessionToken token, v1::SessionRequest request);
  void CloseSession(SessionToken token);

  // One chunk (its CRC checked by the service: a corrupt one never gets here) or one query.
  void Upload(v1::UploadRequest request, Reply<v1::UploadResponse> reply);

  // Pushes everything published from the given rounds on into `queue`, from now until Unsubscribe, the end of the run
  // or an overflow. The reply comes before the first message. A worker has one subscription: a newer one ends the
  // older.
  void Subscribe(v1::SubscribeRequest request, std::shared_ptr<DeltaQueue> queue, Reply<std::monostate> reply);
  void Unsubscribe(std::shared_ptr<DeltaQueue> queue);

  // Where the newest snapshot lies, and the header for this worker.
  struct SnapshotSource {
    v1::SnapshotHeader header;
    std::string path;
    uint64_t consensus_offset = 0;
  };
  void OpenSnapshot(v1::FetchSnapshotRequest request, Reply<SnapshotSource> reply);

  // The seeder's parameters, whole: fragment-major float32 bytes. Answered once snapshot 0 is durable. Or the consensus
  // of the worker that was asked for it, as in snapshots: the observer is then told to start again from the folder.
  void Seed(v1::SeedRequest first, std::string parameters, Reply<v1::SeedResponse> reply);

  void GetStatus(v1::GetStatusRequest request, Reply<v1::GetStatusResponse> reply);
  void ListRounds(v1::ListRoundsRequest request, Reply<v1::ListRoundsResponse> reply);
  void DescribeRound(v1::DescribeRoundRequest request, Reply<v1::DescribeRoundResponse> reply);
  void ListWorkers(v1::ListWorkersRequest request, Reply<v1::ListWorkersResponse> reply);
  void DescribeWorker(v1::DescribeWorkerRequest request, Reply<v1::DescribeWorkerResponse> reply);
  void SaveCheckpoint(v1::SaveCheckpointRequest request, Reply<v1::SaveCheckpointResponse> reply);
  void ListCheckpoints(v1::ListCheckpointsRequest request, Reply<v1::ListCheckpointsResponse> reply);
  void DrainWorker(v1::DrainWorkerRequest request, Reply<v1::DrainWorkerResponse> reply);
  void EvictWorker(v1::EvictWorkerRequest request, Reply<v1::EvictWorkerResponse> reply);
  void AdmitWorker(v1::AdmitWorkerRequest request, Reply<v1::AdmitWorkerResponse> reply);
  void RecoverConsensus(v1::RecoverConsensusRequest request, Reply<v1::RecoverConsensusResponse> reply);
  void PauseRun(v1::PauseRunRequest request, Reply<v1::PauseRunResponse> reply);
  void ResumeRun(v1::ResumeRunRequest request, Reply<v1::ResumeRunResponse> reply);
  void StopRun(v1::StopRunRequest request, Reply<v1::StopRunResponse> reply);
  void ExtendRun(v1::ExtendRunRequest request, Reply<v1::ExtendRunResponse> reply);
  void SetConfig(v1::SetConfigRequest request, Reply<v1::SetConfigResponse> reply);
  void GetConfig(v1::GetConfigRequest request, Reply<v1::GetConfigResponse> reply);

 private:
  class Impl;
  explicit Driver(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace diloco
