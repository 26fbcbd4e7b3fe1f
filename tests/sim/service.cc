#include "tests/sim/service.h"

#include <algorithm>
#include <optional>

#include "common/base/crc32c.h"
#include "coordinator/driver/publication.h"

namespace diloco::sim {

struct Service::Subscription {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<DeltaQueue> queue;
  std::string worker;
  Arrived<v1::SubscribeResponse> arrived;
  uint64_t life = 0;
  bool writing = false;
  SettledLie lie;
};

struct Service::SnapshotReader {
  std::shared_ptr<Stream> stream;
  Driver::SnapshotSource source;
  std::unique_ptr<ReadableFile> file;
  std::string sent;
  bool header_sent = false;
  Arrived<v1::FetchSnapshotResponse> arrived;
};

std::function<void(v1::SessionRequest)> Service::OpenSession(const std::shared_ptr<Stream>& stream,
                                                             std::function<void(const v1::SessionResponse&)> heard) {
  const Driver::SessionToken token =
      node_.driver()->OpenSession({.send =
                                       [this, stream, heard](const v1::SessionResponse& response) {
                                         if (!node_.dying())
                                           stream->Send(Stream::kCoordinator, [heard, response] { heard(response); });
                                       },
                                   .close =
                                       [this, stream](const absl::Status& status) {
                                         if (!node_.dying()) stream->Close(Stream::kCoordinator, status);
                                       }});
  stream->SetOnClose(Stream::kCoordinator, [this, token](const absl::Status&) {
    node_.driver()->CloseSession(token);
    node_.ScheduleTurn();
  });
  node_.ScheduleTurn();
  return [this, token](v1::SessionRequest request) {
    uint64_t& newest = newest_incarnation_[request.worker_id()];
    newest = std::max(newest, request.incarnation());
    node_.driver()->SessionMessage(token, std::move(request));
    node_.ScheduleTurn();
  };
}

void Service::Take(v1::UploadRequest request, std::function<void(const absl::StatusOr<v1::UploadResponse>&)> reply) {
  const v1::UploadRequest sent = request;
  if (shim_ == Shim::kForgetIncarnation) {
    request.set_incarnation(std::max(newest_incarnation_[request.worker_id()], request.incarnation()));
  }
  node_.driver()->Upload(std::move(request), [this, sent, life = node_.life(), reply = std::move(reply)](
                                                 const absl::StatusOr<v1::UploadResponse>& response) {
    if (node_.dying()) return;
    if (response.ok()) node_.witness().OnAnswered(life, sent, response->verdict());
    reply(response);
  });
  node_.ScheduleTurn();
}

void Service::Upload(const std::shared_ptr<Stream>& stream, v1::UploadRequest request,
                     const std::function<void(const v1::UploadResponse&)>& answered) {
  if (random_.Chance(options_.duplicate_chance)) {
    const HeapScope network(kHeapOfTest);
    node_.Post(random_.Between(absl::ZeroDuration(), options_.duplicate_delay),
               [this, request] { Take(request, [](const auto&) {}); });
  }
  if (shim_ == Shim::kCountDuplicate) {
    v1::UploadRequest again = request;
    again.set_round(std::min(request.round() + 1, node_.config().run.rounds - 1));
    node_.Post(absl::Milliseconds(1), [this, again] { Take(again, [](const auto&) {}); });
  }
  if (!request.payload().empty() && random_.Chance(options_.corrupt_chance)) {
    (*request.mutable_payload())[0] = static_cast<char>(request.payload()[0] ^ 0x10);
  }
  if (ComputeCrc32c(request.payload()).value != request.crc32c()) return;  // Not acknowledged.
  Take(std::move(request), [stream, answered](const absl::StatusOr<v1::UploadResponse>& response) {
    if (!response.ok()) return stream->Close(Stream::kCoordinator, response.status());
    stream->Send(Stream::kCoordinator, [answered, response = *response] { answered(response); });
  });
}

void Service::Subscribe(const std::shared_ptr<Stream>& stream, v1::SubscribeRequest request,
                        Arrived<v1::SubscribeResponse> arrived) {
  if (forgets_held_) {
    request.clear_generation();
    for (int64_t& round : *request.mutable_next_rounds()) round = 0;
  }
  auto subscription = std::make_shared<Subscription>();
  subscription->stream = stream;
  subscription->worker = request.worker_id();
  subscription->arrived = std::move(arrived);
  subscription->life = node_.life();
  subscription->queue =
      std::make_shared<DeltaQueue>(options_.subscriber_queue_bytes, ResyncMessage(request.run_id(), "fell behind"),
                                   [this, weak = std::weak_ptr<Subscription>(subscription)] {
                                     if (const std::shared_ptr<Subscription> self = weak.lock()) PumpSubscription(self);
                                   });
  std::erase_if(subscriptions_, [](const auto& each) { return each.expired(); });
  subscriptions_.push_back(subscription);
  // The stream keeps the subscription as long as it is open on this side.
  stream->SetOnClose(Stream::kCoordinator, [this, subscription](const absl::Status&) {
    node_.driver()->Unsubscribe(subscription->queue);
    node_.ScheduleTurn();
  });
  node_.driver()->Subscribe(std::move(request), subscription->queue,
                            [this, stream](const absl::StatusOr<std::monostate>& reply) {
                              if (!reply.ok() && !node_.dying()) stream->Close(Stream::kCoordinator, reply.status());
                            });
  node_.ScheduleTurn();
}

void Service::PumpSubscription(const std::shared_ptr<Subscription>& subscription) {
  if (node_.dying() || subscription->writing || !subscription->stream->open(Stream::kCoordinator)) return;
  bool ended = false;
  const std::shared_ptr<const std::string> queued = subscription->queue->Pop(&ended);
  if (queued == nullptr) {
    if (ended) subscription->stream->Close(Stream::kCoordinator, absl::OkStatus());
    return;
  }
  const std::string message = subscription->lie.Tell(shim_, *queued);
  node_.witness().OnGiven(subscription->worker, message);
  v1::SubscribeResponse item;
  DILOCO_CHECK(item.ParseFromString(message));
  subscription->writing = true;
  // The next one leaves when the worker has taken this one: so much the flow control of a stream holds.
  subscription->stream->Send(Stream::kCoordinator, [this, subscription, item = std::move(item)] {
    if (shim_ == Shim::kKeepDownloads) kept_downloads_.push_back(item);
    subscription->arrived(item, [this, subscription] {
      subscription->stream->Send(Stream::kWorker, [this, subscription] {
        subscription->writing = false;
        PumpSubscription(subscription);
      });
    });
  });
}

void Service::FetchSnapshot(const std::shared_ptr<Stream>& stream, v1::FetchSnapshotRequest request,
                            Arrived<v1::FetchSnapshotResponse> arrived) {
  if (forgets_held_) request.clear_held();
  auto reader = std::make_shared<SnapshotReader>();
  reader->stream = stream;
  reader->arrived = std::move(arrived);
  node_.driver()->OpenSnapshot(std::move(request), [this, reader](absl::StatusOr<Driver::SnapshotSource> source) {
    if (node_.dying()) return;
    if (!source.ok()) return reader->stream->Close(Stream::kCoordinator, source.status());
    reader->source = *std::move(source);
    node_.Post(absl::Microseconds(100), [this, reader] { SendSnapshot(reader); });
  });
  node_.ScheduleTurn();
}

void Service::SendSnapshot(const std::shared_ptr<SnapshotReader>& reader) {
  v1::FetchSnapshotResponse item;
  const uint64_t total = reader->source.header.total_bytes();
  if (!std::exchange(reader->header_sent, true)) {
    absl::StatusOr<std::unique_ptr<ReadableFile>> file = node_.disk().OpenForRead(reader->source.path);
    if (!file.ok()) {
      return reader->stream->Close(Stream::kCoordinator, absl::UnavailableError("the snapshot was replaced"));
    }
    reader->file = *std::move(file);
    *item.mutable_header() = reader->source.header;
  } else if (reader->sent.size() < total) {
    const uint64_t offset = reader->sent.size();
    std::string payload(std::min<uint64_t>(options_.snapshot_chunk_bytes, total - offset), '\0');
    const absl::StatusOr<size_t> read =
        reader->file->ReadAt(reader->source.consensus_offset + offset, payload.data(), payload.size());
    if (!read.ok() || *read != payload.size()) {
      return reader->stream->Close(Stream::kCoordinator, absl::DataLossError("the snapshot cannot be read"));
    }
    reader->sent += payload;
    v1::SnapshotChunk* chunk = item.mutable_chunk();
    chunk->set_run_id(reader->source.header.run_id());
    chunk->set_offset(offset);
    chunk->set_crc32c(ComputeCrc32c(payload).value);
    chunk->set_payload(std::move(payload));
  } else {
    node_.witness().OnSnapshotGiven(reader->source.header, reader->sent);
    return reader->stream->Close(Stream::kCoordinator, absl::OkStatus());
  }
  reader->stream->Send(Stream::kCoordinator, [this, reader, item = std::move(item)] {
    reader->arrived(
        item, [this, reader] { reader->stream->Send(Stream::kWorker, [this, reader] { SendSnapshot(reader); }); });
  });
}

std::string Service::OnJournaled(std::string_view message) {
  for (const std::weak_ptr<Subscription>& weak : subscriptions_) {
    const std::shared_ptr<Subscription> subscription = weak.lock();
    if (shim_ == Shim::kUncommittedState && subscription != nullptr && subscription->life == node_.life()) {
      subscription->queue->Push(std::make_shared<const std::string>(message));
    }
  }
  return journal_lie_.Tell(shim_, message);
}

}  // namespace diloco::sim
