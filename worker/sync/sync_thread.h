// The sync thread: SyncCore with its queue, its clock and the bulk channels. The training thread posts to it and never
// waits for it here (see Exchange).
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "diloco/v1/worker.grpc.pb.h"
#include "worker/sync/event_queue.h"
#include "worker/sync/stream_calls.h"
#include "worker/sync/sync_core.h"
#include "worker/sync/sync_trace.h"

namespace diloco {

class SyncThread final : private SyncNetwork {
 public:
  // `bulk`: wire.connections channels. `tracer` may be null. `resumed`: see SyncCore::Resume. The pointers
  // outlive the object.
  SyncThread(SyncCore::Options options, const RunConfig* config, const Layout* layout, Exchange* exchange,
             StatusBoard* board, const Clock* clock, const std::vector<std::shared_ptr<grpc::Channel>>& bulk,
             Tracer* tracer, std::optional<SyncState> resumed);
  // Cancels every call and joins the thread.
  ~SyncThread() override;

  // Thread-safe.
  void Post(SyncEvent event) { queue_.Push(std::move(event)); }

 private:
  using UploadCall = BidiCall<v1::UploadRequest, v1::UploadResponse>;

  SyncCore::Options Traced(SyncCore::Options options);
  void Run();

  void OpenUpload(int stream, uint64_t call) override;
  void CancelUpload(int stream, uint64_t call) override;
  void Send(int stream, v1::UploadRequest request) override;
  void FetchSnapshot(uint64_t call, v1::FetchSnapshotRequest request) override;
  void OpenSubscription(uint64_t call, v1::SubscribeRequest request) override;
  void ReadNext(uint64_t call) override;
  void CancelDownload(uint64_t call) override;

  const Clock* const clock_;
  Exchange* const exchange_;
  EventQueue<SyncEvent> queue_;
  std::vector<std::unique_ptr<v1::WorkerService::Stub>> stubs_;

  // Of the sync thread.
  v1::FetchSnapshotRequest snapshot_request_;
  v1::SubscribeRequest subscribe_request_;
  std::vector<std::shared_ptr<UploadCall>> uploads_;  // By stream.
  uint64_t download_id_ = 0;
  std::shared_ptr<PacedCall> download_;
  SyncTrace trace_;
  SyncCore core_;

  CallTracker tracker_;  // Before the thread starts and after it has ended, so that callbacks find the queue.
  std::thread thread_;
};

}  // namespace diloco
