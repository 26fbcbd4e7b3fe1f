// A worker whose every request the test writes itself; its helpers fill in what is right.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "common/codec/codec.h"
#include "common/layout/layout_proto.h"
#include "tests/coordinator/driver/driver_fixture.h"
#include "tests/coordinator/driver/sim_worker.h"

namespace diloco {

class HandWorker {
 public:
  HandWorker(Coordinator* coordinator, std::string id, uint64_t incarnation)
      : coordinator_(coordinator),
        id_(std::move(id)),
        incarnation_(incarnation),
        layout_(*Layout::Cut(TwoFragments(), coordinator->config().fragments.cut)) {}

  v1::JoinRequest JoinRequest() const {
    v1::JoinRequest request = Signed<v1::JoinRequest>();
    request.set_protocol_version(kProtocolVersion);
    *request.mutable_tensors() = TensorSpecsToProto(TwoFragments());
    return request;
  }
  absl::StatusOr<v1::JoinResponse> Join() { return coordinator_->Call(&Driver::Join, JoinRequest()); }

  v1::SeedRequest SeedRequest(const std::vector<float>& parameters) const {
    v1::SeedRequest request = Signed<v1::SeedRequest>();
    request.mutable_layout_digest()->set_value(layout_.digest().Bytes());
    request.set_total_bytes(parameters.size() * sizeof(float));
    return request;
  }
  absl::StatusOr<v1::SeedResponse> Seed(const std::vector<float>& parameters) {
    return SendSeed(SeedRequest(parameters), parameters);
  }
  absl::StatusOr<v1::SeedResponse> SendSeed(const v1::SeedRequest& request, const std::vector<float>& parameters) {
    std::string bytes(parameters.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), parameters.data(), bytes.size());
    Answer<v1::SeedResponse> answer;
    coordinator_->driver->Seed(request, std::move(bytes), Into(&answer));
    coordinator_->Pump();
    return **answer;
  }

  // The chunks of a contribution of constant values, in order.
  std::vector<v1::UploadRequest> Chunks(int fragment, int64_t round, float value, uint32_t chunk_bytes = 8) const {
    const auto count = static_cast<size_t>(layout_.fragments()[static_cast<size_t>(fragment)].count);
    const Codec& codec = *FindCodec(coordinator_->config().wire.uplink);
    std::string encoded(codec.encoded_bytes(count), '\0');
    codec.encode(std::vector<float>(count, value), kNearest, absl::MakeSpan(encoded));
    v1::UploadRequest request = Signed<v1::UploadRequest>();
    request.set_fragment(static_cast<uint32_t>(fragment));
    request.set_round(round);
    request.mutable_layout_digest()->set_value(layout_.digest().Bytes());
    request.set_codec(std::string(codec.name));
    request.set_element_count(count);
    request.set_contribution_bytes(encoded.size());
    request.set_chunk_bytes(chunk_bytes);
    request.mutable_contribution_digest()->set_value(DigestOf(encoded).Bytes());
    request.set_weight(1);
    std::vector<v1::UploadRequest> chunks;
    for (uint32_t index = 0; index * chunk_bytes < encoded.size(); ++index) {
      request.set_chunk_index(index);
      request.set_payload(encoded.substr(index * chunk_bytes, chunk_bytes));
      request.set_crc32c(ComputeCrc32c(request.payload()).value);
      chunks.push_back(request);
    }
    return chunks;
  }
  static v1::UploadRequest Query(v1::UploadRequest chunk) {
    chunk.clear_payload();
    chunk.clear_crc32c();
    return chunk;
  }
  absl::StatusOr<v1::UploadResponse> Upload(const v1::UploadRequest& request) {
    return coordinator_->Call(&Driver::Upload, request);
  }
  // All chunks; the answer to the last.
  absl::StatusOr<v1::UploadResponse> Contribute(int fragment, int64_t round, float value) {
    absl::StatusOr<v1::UploadResponse> last = absl::UnknownError("no chunks");
    for (const v1::UploadRequest& chunk : Chunks(fragment, round, value)) {
      last = Upload(chunk);
    }
    return last;
  }

  struct Session {
    Driver::SessionToken token = 0;
    std::shared_ptr<std::vector<v1::Directive>> directives = std::make_shared<std::vector<v1::Directive>>();
    std::shared_ptr<absl::Status> closed = std::make_shared<absl::Status>();
  };
  Session OpenSession() {
    Session session;
    session.token = coordinator_->driver->OpenSession(
        {.send = [directives = session.directives](
                     v1::SessionResponse response) { directives->push_back(response.directive()); },
         .close = [closed = session.closed](absl::Status status) { *closed = std::move(status); }});
    return session;
  }
  v1::SessionRequest Heartbeat() const { return Signed<v1::SessionRequest>(); }
  void Send(const Session& session, const v1::SessionRequest& request) {
    coordinator_->driver->SessionMessage(session.token, request);
    coordinator_->Pump();
  }

  absl::StatusOr<std::shared_ptr<DeltaQueue>> Subscribe(std::vector<int64_t> next_rounds,
                                                        uint64_t limit = kMaxSubscriberQueueBytes,
                                                        std::optional<uint32_t> generation = std::nullopt) {
    auto queue = std::make_shared<DeltaQueue>(limit, "resync", [] {});
    v1::SubscribeRequest request = Signed<v1::SubscribeRequest>();
    request.mutable_next_rounds()->Assign(next_rounds.begin(), next_rounds.end());
    if (generation) request.set_generation(*generation);
    Answer<std::monostate> answer;
    coordinator_->driver->Subscribe(request, queue, Into(&answer));
    coordinator_->Pump();
    if (!(*answer)->ok()) {
      return (*answer)->status();
    }
    return queue;
  }

  template <typename Request>
  Request Signed() const {
    Request request;
    request.set_run_id("test");
    request.set_worker_id(id_);
    request.set_incarnation(incarnation_);
    return request;
  }
  const std::string& id() const { return id_; }

 private:
  Coordinator* const coordinator_;
  const std::string id_;
  const uint64_t incarnation_;
  const Layout layout_;
};

// Everything that waits in a queue.
inline std::vector<v1::SubscribeResponse> Drain(DeltaQueue* queue, bool* ended) {
  std::vector<v1::SubscribeResponse> messages;
  while (const std::shared_ptr<const std::string> message = queue->Pop(ended)) {
    v1::SubscribeResponse& parsed = messages.emplace_back();
    EXPECT_TRUE(parsed.ParseFromString(*message));
  }
  return messages;
}

}  // namespace diloco
