#include "coordinator/service/snapshot_stream.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"

#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "coordinator/service/checks.h"

namespace diloco {

SnapshotStream::SnapshotStream(const ServiceWorld* world, grpc::CallbackServerContext* context)
    : Stream(world, context, Method::kFetchSnapshot) {}

void SnapshotStream::Open(const v1::FetchSnapshotRequest& request) {
  absl::Status status = CheckForm(request);
  if (status.ok()) status = CheckSpeaker(request);
  if (!status.ok()) {
    End(status);
    return;
  }
  world_->driver->OpenSnapshot(request, [self = std::static_pointer_cast<SnapshotStream>(shared_from_this())](
                                            absl::StatusOr<Driver::SnapshotSource> source) {
    if (!source.ok()) {
      self->End(source.status());
      return;
    }
    self->source_ = *std::move(source);
    self->OnReaders(&SnapshotStream::SendHeader);
  });
}

void SnapshotStream::OnReaders(void (SnapshotStream::*step)()) {
  world_->readers->Submit(
      [self = std::static_pointer_cast<SnapshotStream>(shared_from_this()), step] { ((*self).*step)(); });
}

void SnapshotStream::SendHeader() {
  absl::StatusOr<std::unique_ptr<ReadableFile>> file = world_->files->OpenForRead(source_.path);
  if (!file.ok()) {
    // A newer snapshot has taken its place since the driver named it.
    End(absl::UnavailableError("the snapshot was replaced by a newer one; fetch it again"));
    return;
  }
  file_ = *std::move(file);
  *written_.mutable_header() = source_.header;
  Write();
}

void SnapshotStream::SendChunk() {
  const size_t size = std::min<uint64_t>(kMaxChunkBytes, source_.header.total_bytes() - offset_);
  v1::SnapshotChunk* chunk = written_.mutable_chunk();
  chunk->set_run_id(source_.header.run_id());
  chunk->set_offset(offset_);
  std::string* payload = chunk->mutable_payload();
  payload->resize(size);
  const absl::StatusOr<size_t> read =
      file_->ReadAt(source_.consensus_offset + offset_, payload->data(), payload->size());
  if (!read.ok() || *read != size) {
    End(absl::DataLossError(absl::StrFormat("the snapshot cannot be read at offset %d: %s", offset_,
                                            read.ok() ? "it is too short" : read.status().ToString())));
    return;
  }
  chunk->set_crc32c(ComputeCrc32c(*payload).value);
  offset_ += size;
  Write();
}

void SnapshotStream::Write() {
  MutexLock lock(&mutex_);
  if (!ended()) WriteLocked(&written_);
}

void SnapshotStream::OnWriteDone(bool ok) {
  MutexLock lock(&mutex_);
  if (!WriteCameBackLocked(ok)) return;
  if (offset_ == source_.header.total_bytes()) {
    EndLocked(absl::OkStatus());
  } else {
    OnReaders(&SnapshotStream::SendChunk);
  }
}

}  // namespace diloco
