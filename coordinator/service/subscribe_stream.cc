#include "coordinator/service/subscribe_stream.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/limits.h"
#include "coordinator/driver/publication.h"
#include "coordinator/service/checks.h"

namespace diloco {
namespace {

constexpr char kFellBehind[] = "the subscriber fell too far behind; fetch the snapshot";

// A buffer that shares the bytes and keeps them alive.
grpc::ByteBuffer Share(std::shared_ptr<const std::string> message) {
  auto* owner = new std::shared_ptr<const std::string>(std::move(message));
  // gRPC only reads a slice; its interface has no const.
  grpc::Slice slice(
      const_cast<char*>((*owner)->data()), (*owner)->size(),
      [](void* data) { delete static_cast<std::shared_ptr<const std::string>*>(data); }, owner);
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

SubscribeStream::SubscribeStream(const ServiceWorld* world, grpc::CallbackServerContext* context)
    : Stream(world, context, Method::kSubscribe) {}

void SubscribeStream::Open(const grpc::ByteBuffer& request) {
  // The driver and the queue know the stream weakly: they may hold the queue for longer.
  const auto weak = std::weak_ptr<SubscribeStream>(std::static_pointer_cast<SubscribeStream>(shared_from_this()));
  queue_ = std::make_shared<DeltaQueue>(kMaxSubscriberQueueBytes, ResyncMessage(world_->run_id, kFellBehind), [weak] {
    if (const std::shared_ptr<SubscribeStream> self = weak.lock()) self->Pump();
  });
  grpc::ByteBuffer buffer(request);
  v1::SubscribeRequest message;
  if (!grpc::SerializationTraits<v1::SubscribeRequest>::Deserialize(&buffer, &message).ok()) {
    End(absl::InvalidArgumentError("the request cannot be read"));
    return;
  }
  absl::Status status = CheckForm(message);
  if (status.ok()) status = CheckSpeaker(message);
  if (!status.ok()) {
    End(status);
    return;
  }
  worker_ = message.worker_id();
  world_->driver->Subscribe(std::move(message), queue_, [weak](const absl::StatusOr<std::monostate>& reply) {
    const std::shared_ptr<SubscribeStream> self = weak.lock();
    if (self != nullptr && !reply.ok()) self->End(reply.status());
  });
}

void SubscribeStream::Pump() {
  MutexLock lock(&mutex_);
  PumpLocked();
}

void SubscribeStream::PumpLocked() {
  if (ended() || writing()) return;
  bool ended_queue = false;
  if (std::shared_ptr<const std::string> message = queue_->Pop(&ended_queue)) {
    if (world_->tracer != nullptr && sent_bytes_ == 0) sending_since_ = Tracer::Now();
    sent_bytes_ += message->size();
    written_ = Share(std::move(message));
    WriteLocked(&written_);
    return;
  }
  if (const uint64_t bytes = std::exchange(sent_bytes_, 0); bytes > 0 && world_->tracer != nullptr) {
    world_->tracer->AsyncSlice(absl::StrCat("send to ", worker_), sending_since_, Tracer::Now(),
                               {{"worker", worker_}, {"bytes", bytes}});
  }
  if (ended_queue) EndLocked(absl::OkStatus());
}

void SubscribeStream::OnWriteDone(bool ok) {
  MutexLock lock(&mutex_);
  if (WriteCameBackLocked(ok)) PumpLocked();
}

void SubscribeStream::OnClosed() { world_->driver->Unsubscribe(queue_); }

}  // namespace diloco
