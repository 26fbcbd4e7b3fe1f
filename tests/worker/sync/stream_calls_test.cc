#include "worker/sync/stream_calls.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "gtest/gtest.h"

#include "common/rpc/channel.h"
#include "diloco/v1/worker.grpc.pb.h"

namespace diloco {
namespace {

// Sends messages as fast as they are taken, and echoes uploads.
class ChattyService final : public v1::WorkerService::Service {
 public:
  grpc::Status Subscribe(grpc::ServerContext*, const v1::SubscribeRequest*,
                         grpc::ServerWriter<v1::SubscribeResponse>* writer) override {
    v1::SubscribeResponse item;
    item.mutable_chunk()->set_payload(std::string(1000, 'x'));
    while (writer->Write(item)) {
    }
    return grpc::Status::OK;
  }
  grpc::Status Upload(grpc::ServerContext*,
                      grpc::ServerReaderWriter<v1::UploadResponse, v1::UploadRequest>* stream) override {
    v1::UploadRequest request;
    v1::UploadResponse response;
    while (stream->Read(&request)) {
      response.set_round(request.round());
      stream->Write(response);
    }
    return grpc::Status::OK;
  }
};

class StreamCallsTest : public testing::Test {
 protected:
  void SetUp() override {
    StartServer(0);
    ASSERT_NE(server_, nullptr);
    channel_ = MakeChannel("127.0.0.1:" + std::to_string(port_));
    stub_ = v1::WorkerService::NewStub(channel_);
  }
  void TearDown() override { StopServer(); }

  void StartServer(int port) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  void StopServer() { server_->Shutdown(std::chrono::system_clock::now()); }

  ChattyService service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
};

TEST_F(StreamCallsTest, PacedCallEndsWheneverItIsCancelled) {
  for (int i = 0; i < 100; ++i) {
    std::atomic<int> responses = 0;
    std::atomic<int> ends = 0;
    v1::SubscribeRequest request;
    {
      CallTracker tracker;  // Its destructor waits for the end.
      const auto call = ReadCall<v1::SubscribeResponse>::Start(
          {.on_response = [&](v1::SubscribeResponse) { ++responses; }, .on_done = [&](const grpc::Status&) { ++ends; }},
          &tracker,
          [&](grpc::ClientContext* context, auto* reactor) { stub_->async()->Subscribe(context, &request, reactor); });
      // Cancelled before, while or after the message of the moment arrives.
      for (int turn = 0; turn < i % 3; ++turn) {
        while (responses <= turn) {
          std::this_thread::yield();
        }
        call->ReadNext();
      }
      for (int spin = 0; spin < i % 10; ++spin) {
        std::this_thread::yield();
      }
      call->Cancel();
      call->ReadNext();
    }
    EXPECT_EQ(ends, 1);
    EXPECT_LE(responses, i % 3 + 1) << "a message that nobody asked for";
  }
}

TEST_F(StreamCallsTest, BidiCallCarriesBothWaysAndEndsOnce) {
  std::atomic<int64_t> echoed = -1;
  std::atomic<int> written = 0;
  std::atomic<int> ends = 0;
  std::shared_ptr<BidiCall<v1::UploadRequest, v1::UploadResponse>> call;
  {
    CallTracker tracker;
    call = BidiCall<v1::UploadRequest, v1::UploadResponse>::Start(
        {.on_response = [&](const v1::UploadResponse& response) { echoed = response.round(); },
         .on_written = [&] { ++written; },
         .on_done =
             [&](const grpc::Status& status) {
               EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
               ++ends;
             }},
        &tracker, [&](grpc::ClientContext* context, auto* reactor) { stub_->async()->Upload(context, reactor); });
    for (int64_t round = 0; round < 20; ++round) {
      v1::UploadRequest request;
      request.set_round(round);
      call->Write(request);
      while (echoed != round || written != round + 1) {
        std::this_thread::yield();
      }
    }
    call->Cancel();
  }
  EXPECT_EQ(ends, 1);
  call->Write({});  // After the end: nothing happens.
  EXPECT_EQ(written, 20);
}

TEST_F(StreamCallsTest, ACallThatBeginsDuringAnOutageGoesThroughWhenTheServerIsBack) {
  StopServer();
  // Until the channel has found out: a call would fail at once now.
  const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(60);
  for (auto state = channel_->GetState(true); state != GRPC_CHANNEL_TRANSIENT_FAILURE;
       state = channel_->GetState(true)) {
    ASSERT_TRUE(channel_->WaitForStateChange(state, deadline));
  }
  std::atomic<int> echoed = 0;
  std::atomic<int> read = 0;
  std::atomic<int> ends = 0;
  v1::SubscribeRequest subscription;
  {
    CallTracker tracker;
    const auto upload = BidiCall<v1::UploadRequest, v1::UploadResponse>::Start(
        {.on_response = [&](const v1::UploadResponse&) { ++echoed; },
         .on_written = [] {},
         .on_done = [&](const grpc::Status&) { ++ends; }},
        &tracker, [&](grpc::ClientContext* context, auto* reactor) { stub_->async()->Upload(context, reactor); });
    const auto download = ReadCall<v1::SubscribeResponse>::Start(
        {.on_response = [&](v1::SubscribeResponse) { ++read; }, .on_done = [&](const grpc::Status&) { ++ends; }},
        &tracker, [&](grpc::ClientContext* context, auto* reactor) {
          stub_->async()->Subscribe(context, &subscription, reactor);
        });
    upload->Write({});
    StartServer(port_);
    ASSERT_NE(server_, nullptr);
    while (ends == 0 && (echoed == 0 || read == 0)) {
      std::this_thread::yield();
    }
    EXPECT_EQ(ends, 0) << "a call failed instead of waiting";
    EXPECT_EQ(echoed, 1);
    EXPECT_EQ(read, 1);
    upload->Cancel();
    download->Cancel();
  }
  EXPECT_EQ(ends, 2);
}

}  // namespace
}  // namespace diloco
