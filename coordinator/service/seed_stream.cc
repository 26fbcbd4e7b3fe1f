#include "coordinator/service/seed_stream.h"

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "coordinator/service/checks.h"

namespace diloco {

SeedStream::SeedStream(const ServiceWorld* world, grpc::CallbackServerContext* context, v1::SeedResponse* response)
    : Stream(world, context, Method::kSeed), response_(response) {}

void SeedStream::Open() {
  admitted_ = !world_->seed_open->exchange(true);
  if (admitted_) {
    Read();
  } else {
    End(absl::UnavailableError("another seed is being received; try again"));
  }
}

void SeedStream::Read() {
  MutexLock lock(&mutex_);
  if (ended()) return;
  WaitForPeer();
  StartRead(&request_);
}

void SeedStream::OnReadDone(bool ok) {
  {
    MutexLock lock(&mutex_);
    StopWaiting();
  }
  if (const absl::Status status = ok ? Take() : CheckWhole(); !status.ok()) {
    End(status);
    return;
  }
  if (ok) {
    Read();
    return;
  }
  world_->driver->Seed(
      std::move(first_), std::move(parameters_),
      [self = std::static_pointer_cast<SeedStream>(shared_from_this())](absl::StatusOr<v1::SeedResponse> response) {
        MutexLock lock(&self->mutex_);
        if (response.ok() && !self->ended()) *self->response_ = *std::move(response);
        self->EndLocked(response.status());
      });
}

absl::Status SeedStream::Take() {
  DILOCO_RETURN_IF_ERROR(CheckForm(request_));
  DILOCO_RETURN_IF_ERROR(CheckSpeaker(request_));
  if (!PayloadIsGood(request_)) {
    return absl::DataLossError(
        absl::StrFormat("the piece at offset %d was damaged on its way; send the parameters again", request_.offset()));
  }
  if (request_.offset() != parameters_.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a piece has offset %d; pieces come in order, and the next one is at %d", request_.offset(),
                        parameters_.size()));
  }
  if (request_.payload().empty()) return absl::InvalidArgumentError("a piece is empty");
  const bool is_first = request_.offset() == 0;
  if (!is_first && request_.total_bytes() != first_.total_bytes()) {
    return absl::InvalidArgumentError(absl::StrFormat("total_bytes changed from %d to %d between two pieces",
                                                      first_.total_bytes(), request_.total_bytes()));
  }
  if (request_.payload().size() > request_.total_bytes() - request_.offset()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the pieces are more than the %d bytes announced", request_.total_bytes()));
  }
  parameters_ += request_.payload();
  if (is_first) {
    request_.clear_payload();
    first_ = std::move(request_);
  }
  request_.Clear();
  return absl::OkStatus();
}

absl::Status SeedStream::CheckWhole() const {
  if (first_.run_id().empty()) return absl::InvalidArgumentError("no parameters came");
  if (parameters_.size() != first_.total_bytes()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d bytes came of the %d announced", parameters_.size(), first_.total_bytes()));
  }
  return absl::OkStatus();
}

void SeedStream::OnEndLocked() {
  if (admitted_) world_->seed_open->store(false);
}

}  // namespace diloco
