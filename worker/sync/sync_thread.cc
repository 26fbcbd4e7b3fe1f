#include "worker/sync/sync_thread.h"

#include <utility>

#include "common/rpc/status.h"

namespace diloco {
namespace {

// The longest the thread sleeps without anything to do.
constexpr absl::Duration kIdleWake = absl::Seconds(60);

}  // namespace

SyncThread::SyncThread(SyncCore::Options options, const RunConfig* config, const Layout* layout, Exchange* exchange,
                       StatusBoard* board, const Clock* clock, const std::vector<std::shared_ptr<grpc::Channel>>& bulk,
                       Tracer* tracer, std::optional<SyncState> resumed)
    : clock_(clock),
      exchange_(exchange),
      uploads_(bulk.size()),
      trace_(tracer, static_cast<int>(bulk.size())),
      core_(Traced(std::move(options)), config, layout, exchange, board, this) {
  for (const std::shared_ptr<grpc::Channel>& channel : bulk) {
    stubs_.push_back(v1::WorkerService::NewStub(channel));
  }
  if (resumed) core_.Resume(*std::move(resumed), clock_->Now());
  thread_ = std::thread([this] { Run(); });
}

SyncThread::~SyncThread() {
  queue_.Close();
  thread_.join();
  for (const std::shared_ptr<UploadCall>& upload : uploads_) {
    if (upload) {
      upload->Cancel();
    }
  }
  CancelDownload(download_id_);
}

SyncCore::Options SyncThread::Traced(SyncCore::Options options) {
  if (!trace_.on()) return options;
  options.on_consensus = [this, inner = std::move(options.on_consensus)](int fragment, int64_t version,
                                                                         const Digest& digest) {
    trace_.NoteApplied();
    if (inner) inner(fragment, version, digest);
  };
  return options;
}

void SyncThread::Run() {
  bool going = core_.HandleTime(clock_->Now()).ok();
  while (going) {
    const MonotonicTime wake = core_.next_wake().value_or(clock_->Now() + kIdleWake);
    std::optional<SyncEvent> event = queue_.Pop(wake);
    if (queue_.closed()) {
      return;
    }
    const MonotonicTime now = clock_->Now();
    if (event) trace_.Begin(*event);
    going = (event ? core_.Handle(*std::move(event), now) : core_.HandleTime(now)).ok();
    trace_.End();
  }
}

void SyncThread::OpenUpload(int stream, uint64_t call) {
  const auto index = static_cast<size_t>(stream);
  uploads_[index] = UploadCall::Start({.on_response =
                                           [this, stream, call](v1::UploadResponse response) {
                                             exchange_->NoteContact();
                                             queue_.Push(UploadReplied{stream, call, std::move(response)});
                                           },
                                       .on_written =
                                           [this, stream, call] {
                                             queue_.Push(UploadWritten{stream, call});
                                           },
                                       .on_done =
                                           [this, stream, call](const grpc::Status&) {
                                             queue_.Push(UploadClosed{stream, call});
                                           }},
                                      &tracker_, [this, index](grpc::ClientContext* context, auto* reactor) {
                                        stubs_[index]->async()->Upload(context, reactor);
                                      });
}

void SyncThread::CancelUpload(int stream, uint64_t /*call*/) { uploads_[static_cast<size_t>(stream)]->Cancel(); }

void SyncThread::Send(int stream, v1::UploadRequest request) {
  trace_.NoteSent(stream, request);
  uploads_[static_cast<size_t>(stream)]->Write(std::move(request));
}

void SyncThread::FetchSnapshot(uint64_t call, v1::FetchSnapshotRequest request) {
  download_id_ = call;
  snapshot_request_ = std::move(request);
  download_ = ReadCall<v1::FetchSnapshotResponse>::Start(
      {.on_response =
           [this, call](v1::FetchSnapshotResponse item) {
             queue_.Push(SnapshotItemRead{call, std::move(item)});
           },
       .on_done =
           [this, call](const grpc::Status& status) {
             queue_.Push(DownloadFinished{call, FromGrpcStatus(status)});
           }},
      &tracker_, [this](grpc::ClientContext* context, auto* reactor) {
        stubs_[0]->async()->FetchSnapshot(context, &snapshot_request_, reactor);
      });
}

void SyncThread::OpenSubscription(uint64_t call, v1::SubscribeRequest request) {
  download_id_ = call;
  subscribe_request_ = std::move(request);
  download_ =
      ReadCall<v1::SubscribeResponse>::Start({.on_response =
                                                  [this, call](v1::SubscribeResponse item) {
                                                    queue_.Push(SubscriptionItemRead{call, std::move(item)});
                                                  },
                                              .on_done =
                                                  [this, call](const grpc::Status& status) {
                                                    queue_.Push(DownloadFinished{call, FromGrpcStatus(status)});
                                                  }},
                                             &tracker_, [this](grpc::ClientContext* context, auto* reactor) {
                                               stubs_[0]->async()->Subscribe(context, &subscribe_request_, reactor);
                                             });
}

void SyncThread::ReadNext(uint64_t call) {
  if (call == download_id_ && download_) {
    download_->ReadNext();
  }
}

void SyncThread::CancelDownload(uint64_t call) {
  if (call == download_id_ && download_) {
    download_->Cancel();
    download_.reset();
  }
}

}  // namespace diloco
