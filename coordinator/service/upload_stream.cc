#include "coordinator/service/upload_stream.h"

#include "common/base/limits.h"
#include "common/log/log.h"
#include "coordinator/driver/shutting_down.h"
#include "coordinator/service/checks.h"

namespace diloco {

UploadStream::UploadStream(const ServiceWorld* world, grpc::CallbackServerContext* context)
    : Stream(world, context, Method::kUpload) {}

void UploadStream::Open() {
  MutexLock lock(&mutex_);
  AdvanceLocked();
}

void UploadStream::Drain() {
  MutexLock lock(&mutex_);
  draining_ = true;
  AdvanceLocked();
}

void UploadStream::AdvanceLocked() {
  if (ended()) return;
  if (!answers_.empty() && !writing()) {
    written_ = std::move(answers_.front());
    answers_.pop_front();
    WriteLocked(&written_);
  }
  if (in_flight_ == 0 && draining_) {
    EndLocked(ShuttingDown());
  } else if (in_flight_ == 0 && no_more_) {
    EndLocked(absl::OkStatus());
  } else if (!reading_ && !no_more_ && !draining_ && in_flight_ < kMaxUploadsInFlight) {
    reading_ = true;
    StartRead(&request_);
  }
}

void UploadStream::OnReadDone(bool ok) {
  if (ok) Take();
  MutexLock lock(&mutex_);
  reading_ = false;
  if (!ok) no_more_ = true;
  AdvanceLocked();
}

void UploadStream::Take() {
  absl::Status status = CheckForm(request_);
  if (status.ok()) status = CheckSpeaker(request_);
  if (!status.ok()) {
    End(status);
    return;
  }
  const size_t bytes = request_.payload().size();
  if (!PayloadIsGood(request_)) {
    world_->metrics->chunks_corrupt.Increment();
    // Once a stream: a line that damages everything does not fill the log.
    const auto tell = std::exchange(told_corrupt_, true) ? LogDebug : LogWarning;
    tell("chunk_corrupt", {{"worker", request_.worker_id()},
                           {"fragment", request_.fragment()},
                           {"round", request_.round()},
                           {"chunk", request_.chunk_index()},
                           {"reason", "its CRC32C does not match; it is asked for again"}});
    return;
  }
  if (status = caller().TakeBytes(bytes); !status.ok()) {
    End(status);
    return;
  }
  {
    MutexLock lock(&mutex_);
    ++in_flight_;
  }
  world_->driver->Upload(std::exchange(request_, {}),
                         [self = std::static_pointer_cast<UploadStream>(shared_from_this()),
                          bytes](absl::StatusOr<v1::UploadResponse> response) {
                           self->caller().GiveBytes(bytes);
                           self->Answer(std::move(response));
                         });
}

void UploadStream::Answer(absl::StatusOr<v1::UploadResponse> response) {
  MutexLock lock(&mutex_);
  if (!response.ok()) {
    EndLocked(response.status());
    return;
  }
  answers_.push_back(*std::move(response));
  AdvanceLocked();
}

void UploadStream::OnWriteDone(bool ok) {
  MutexLock lock(&mutex_);
  if (!WriteCameBackLocked(ok)) return;
  --in_flight_;
  AdvanceLocked();
}

}  // namespace diloco
