// The streams of a worker: what its two cores ask of the network.
#include <utility>

#include "tests/sim/worker_life.h"
#include "tests/sim/worker_node.h"

namespace diloco::sim {

// ---- Control ----

void WorkerNode::OpenSession(uint64_t call) {
  own_->session_call = call;
  own_->session = nullptr;
  own_->session_out.clear();
  Connect([this, call](const std::shared_ptr<Stream>& stream) {
    if (call != own_->session_call) return stream->Close(Stream::kWorker, absl::CancelledError(""));
    own_->session = stream;
    stream->SetOnClose(Stream::kWorker, [this, call](const absl::Status& status) {
      HandleControl(SessionClosed{call, status.code()});
    });
    // The coordinator's end, there once the stream has reached it.
    auto in = std::make_shared<std::function<void(v1::SessionRequest)>>();
    own_->session_in = [this, stream, in, call](v1::SessionRequest request) {
      stream->Send(
          Stream::kWorker, [in, request = std::move(request)] { (*in)(request); },
          [this, call] { HandleControl(HeartbeatWritten{call}); });
    };
    stream->Send(Stream::kWorker, [this, stream, in, call] {
      *in = service_.OpenSession(stream, [this, call](const v1::SessionResponse& response) {
        if (own_->exchange) own_->exchange->NoteContact();
        HandleControl(SessionAnswered{call, response});
      });
    });
    for (v1::SessionRequest& request : std::exchange(own_->session_out, {})) own_->session_in(std::move(request));
  });
}

void WorkerNode::Send(uint64_t /*call*/, v1::SessionRequest request) {
  if (own_->session == nullptr) return own_->session_out.push_back(std::move(request));
  own_->session_in(std::move(request));
}

void WorkerNode::CancelSession(uint64_t call) {
  if (own_->session != nullptr) own_->session->Close(Stream::kWorker, absl::CancelledError(""));
  Post(absl::ZeroDuration(), [this, call] { HandleControl(SessionClosed{call, absl::StatusCode::kCancelled}); });
}

void WorkerNode::Join(v1::JoinRequest request) {
  Call<v1::JoinRequest, v1::JoinResponse>(
      &Driver::Join, std::move(request), [this](const absl::StatusOr<v1::JoinResponse>& joined) {
        if (!joined.ok()) return HandleControl(JoinAnswered{.status = joined.status()});
        HandleControl(JoinAnswered{absl::OkStatus(), joined->directive(), joined->generation()});
      });
}

// ---- Uploads ----

void WorkerNode::OpenUpload(int index, uint64_t call) {
  own_->uploads[static_cast<size_t>(index)] = {.call = call};
  Connect([this, index, call](const std::shared_ptr<Stream>& stream) {
    Life::UploadStream& upload = own_->uploads[static_cast<size_t>(index)];
    if (call != upload.call) return stream->Close(Stream::kWorker, absl::CancelledError(""));
    upload.stream = stream;
    stream->SetOnClose(Stream::kWorker, [this, index, call](const absl::Status&) {
      HandleSync(UploadClosed{index, call});
    });
    if (upload.unsent) SendOn(index, *std::exchange(upload.unsent, std::nullopt));
  });
}

void WorkerNode::CancelUpload(int index, uint64_t call) {
  const Life::UploadStream& upload = own_->uploads[static_cast<size_t>(index)];
  if (upload.stream != nullptr) upload.stream->Close(Stream::kWorker, absl::CancelledError(""));
  Post(absl::ZeroDuration(), [this, index, call] { HandleSync(UploadClosed{index, call}); });
}

void WorkerNode::Send(int index, v1::UploadRequest request) {
  witness_.OnSent(request);
  Life::UploadStream& upload = own_->uploads[static_cast<size_t>(index)];
  if (upload.stream == nullptr) {
    upload.unsent = std::move(request);
  } else {
    SendOn(index, std::move(request));
  }
}

void WorkerNode::SendOn(int index, v1::UploadRequest request) {
  const Life::UploadStream& upload = own_->uploads[static_cast<size_t>(index)];
  const auto answered = [this, index, call = upload.call](const v1::UploadResponse& response) {
    own_->exchange->NoteContact();
    HandleSync(UploadReplied{index, call, response});
  };
  upload.stream->Send(
      Stream::kWorker,
      [this, stream = upload.stream, request = std::move(request), answered] {
        service_.Upload(stream, request, answered);
      },
      [this, index, call = upload.call] {
        HandleSync(UploadWritten{index, call});
      });
}

// ---- Downloads ----

template <typename Item, typename Event, typename Request>
void WorkerNode::StartDownload(uint64_t call, const Request& request,
                               void (Service::*method)(const std::shared_ptr<Stream>&, Request,
                                                       Service::Arrived<Item>)) {
  own_->download_call = call;
  own_->download = nullptr;
  own_->deliver_next = nullptr;
  own_->reading = true;
  const Service::Arrived<Item> arrived = [this, call](const Item& item, Task taken) {
    if (call != own_->download_call) return;
    own_->deliver_next = [this, call, item, taken = std::move(taken)] {
      Post(options_.read_time, [this, call, item, taken] {
        taken();
        HandleSync(Event{call, item});
      });
    };
    if (std::exchange(own_->reading, false)) std::exchange(own_->deliver_next, nullptr)();
  };
  Connect([this, call, request, method, arrived](const std::shared_ptr<Stream>& stream) {
    if (call != own_->download_call) return stream->Close(Stream::kWorker, absl::CancelledError(""));
    own_->download = stream;
    stream->SetOnClose(Stream::kWorker, [this, call](const absl::Status& status) {
      HandleSync(DownloadFinished{call, status});
    });
    stream->Send(Stream::kWorker,
                 [this, stream, request, method, arrived] { (service_.*method)(stream, request, arrived); });
  });
}

void WorkerNode::FetchSnapshot(uint64_t call, v1::FetchSnapshotRequest request) {
  StartDownload<v1::FetchSnapshotResponse, SnapshotItemRead>(call, request, &Service::FetchSnapshot);
}

void WorkerNode::OpenSubscription(uint64_t call, v1::SubscribeRequest request) {
  StartDownload<v1::SubscribeResponse, SubscriptionItemRead>(call, request, &Service::Subscribe);
}

void WorkerNode::ReadNext(uint64_t call) {
  if (call != own_->download_call) return;
  if (own_->deliver_next) {
    std::exchange(own_->deliver_next, nullptr)();
  } else {
    own_->reading = true;
  }
}

void WorkerNode::CancelDownload(uint64_t call) {
  if (call != own_->download_call) return;
  if (own_->download != nullptr) own_->download->Close(Stream::kWorker, absl::CancelledError(""));
  own_->download_call = 0;
  Post(absl::ZeroDuration(), [this, call] { HandleSync(DownloadFinished{call, absl::CancelledError("")}); });
}

}  // namespace diloco::sim
