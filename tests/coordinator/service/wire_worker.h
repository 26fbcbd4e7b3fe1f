// A worker of the tests that speaks the wire contract with blocking calls, each of them with a deadline, and knows
// nothing of the real client: what the service answers is seen as it is.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/base/crc32c.h"
#include "common/base/digest.h"
#include "common/base/limits.h"
#include "common/rpc/channel.h"
#include "common/rpc/status.h"
#include "diloco/v1/worker.grpc.pb.h"

namespace diloco {

// A healthy answer takes milliseconds; a busy machine gets this long.
inline void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(90));
}

inline std::string FloatBytes(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

class WireWorker {
 public:
  WireWorker(const std::string& address, std::string run, std::string id, int64_t elements)
      : WireWorker(MakeChannel(address), std::move(run), std::move(id), elements) {}
  WireWorker(const std::shared_ptr<grpc::Channel>& channel, std::string run, std::string id, int64_t elements)
      : stub_(v1::WorkerService::NewStub(channel)), run_(std::move(run)), id_(std::move(id)), elements_(elements) {}

  v1::WorkerService::Stub& stub() { return *stub_; }

  // Fills in what each request of a member carries.
  template <typename Request>
  Request Signed() const {
    Request request;
    request.set_run_id(run_);
    request.set_worker_id(id_);
    request.set_incarnation(incarnation_);
    return request;
  }

  v1::JoinRequest JoinMessage() const {
    auto request = Signed<v1::JoinRequest>();
    request.set_protocol_version(kProtocolVersion);
    v1::TensorSpec* tensor = request.add_tensors();
    tensor->set_name("w");
    tensor->add_shape(elements_);
    tensor->set_layer(-1);
    return request;
  }

  absl::Status Join(const v1::JoinRequest& request) {
    grpc::ClientContext context;
    SetDeadline(&context);
    const absl::Status status = FromGrpcStatus(stub_->Join(&context, request, &joined_));
    return status;
  }
  absl::Status Join() { return Join(JoinMessage()); }
  const v1::JoinResponse& joined() const { return joined_; }

  // The parameters in pieces of `piece` bytes, as the contract wants them.
  std::vector<v1::SeedRequest> SeedMessages(const std::string& parameters, size_t piece = kMaxChunkBytes) const {
    std::vector<v1::SeedRequest> messages;
    for (size_t offset = 0; offset < parameters.size(); offset += piece) {
      auto request = Signed<v1::SeedRequest>();
      *request.mutable_layout_digest() = joined_.layout_digest();
      request.set_total_bytes(parameters.size());
      request.set_offset(offset);
      request.set_payload(parameters.substr(offset, piece));
      request.set_crc32c(ComputeCrc32c(request.payload()).value);
      messages.push_back(std::move(request));
    }
    return messages;
  }
  absl::Status Seed(const std::vector<v1::SeedRequest>& messages) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::SeedResponse response;
    const auto writer = stub_->Seed(&context, &response);
    for (const v1::SeedRequest& message : messages) {
      if (!writer->Write(message)) break;
    }
    writer->WritesDone();
    return FromGrpcStatus(writer->Finish());
  }

  // All chunks of one fp32 contribution.
  std::vector<v1::UploadRequest> Contribution(int64_t round, const std::vector<float>& values) const {
    const std::string bytes = FloatBytes(values);
    std::vector<v1::UploadRequest> chunks;
    for (size_t offset = 0; offset < bytes.size(); offset += kMaxChunkBytes) {
      auto request = Signed<v1::UploadRequest>();
      request.set_round(round);
      *request.mutable_layout_digest() = joined_.layout_digest();
      request.set_codec("fp32");
      request.set_element_count(values.size());
      request.set_contribution_bytes(bytes.size());
      request.set_chunk_bytes(kMaxChunkBytes);
      request.mutable_contribution_digest()->set_value(DigestOf(bytes).Bytes());
      request.set_weight(1);
      request.set_chunk_index(static_cast<uint32_t>(chunks.size()));
      request.set_payload(bytes.substr(offset, kMaxChunkBytes));
      request.set_crc32c(ComputeCrc32c(request.payload()).value);
      chunks.push_back(std::move(request));
    }
    return chunks;
  }

  struct Upload {
    std::unique_ptr<grpc::ClientContext> context = std::make_unique<grpc::ClientContext>();
    std::unique_ptr<grpc::ClientReaderWriter<v1::UploadRequest, v1::UploadResponse>> stream;
  };
  Upload OpenUpload() {
    Upload upload;
    SetDeadline(upload.context.get());
    upload.stream = stub_->Upload(upload.context.get());
    return upload;
  }

  // Joins, seeds with `parameters`, and sends one contribution; the test has failed where a call did.
  void JoinAndSeed(const std::vector<float>& parameters) {
    absl::Status status = Join();
    ASSERT_TRUE(status.ok()) << status;
    status = Seed(SeedMessages(FloatBytes(parameters)));
    ASSERT_TRUE(status.ok()) << status;
  }
  void Contribute(int64_t round, const std::vector<float>& values) {
    Upload upload = OpenUpload();
    v1::UploadResponse response;
    for (const v1::UploadRequest& chunk : Contribution(round, values)) {
      ASSERT_TRUE(upload.stream->Write(chunk));
      ASSERT_TRUE(upload.stream->Read(&response));
    }
    EXPECT_EQ(response.verdict(), v1::CONTRIBUTION_VERDICT_STORED) << response.reason();
    upload.stream->WritesDone();
    const absl::Status status = FromGrpcStatus(upload.stream->Finish());
    EXPECT_TRUE(status.ok()) << status;
  }

 private:
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
  const std::string run_;
  const std::string id_;
  const int64_t elements_;
  const uint64_t incarnation_ = 7;
  v1::JoinResponse joined_;
};

}  // namespace diloco
