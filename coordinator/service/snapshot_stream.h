// The newest snapshot to a joiner: the header, then the file's raw part in chunks, each read by a reader thread and
// never in gRPC's.
#pragma once

#include <cstdint>
#include <memory>

#include "coordinator/service/stream.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {

class SnapshotStream final : public Stream<grpc::ServerWriteReactor<v1::FetchSnapshotResponse>> {
 public:
  SnapshotStream(const ServiceWorld* world, grpc::CallbackServerContext* context);
  void Open(const v1::FetchSnapshotRequest& request);
  // Goes on: a snapshot that is under way may still arrive before calls are cancelled.
  void Drain() override {}

 private:
  void OnWriteDone(bool ok) override;
  void OnReaders(void (SnapshotStream::*step)());
  void SendHeader();
  void SendChunk();
  void Write();

  // All of these belong to one step at a time: a reader's, or gRPC's while it writes.
  Driver::SnapshotSource source_;
  std::unique_ptr<ReadableFile> file_;
  uint64_t offset_ = 0;  // Of the next chunk, in the whole.
  v1::FetchSnapshotResponse written_;
};

}  // namespace diloco
