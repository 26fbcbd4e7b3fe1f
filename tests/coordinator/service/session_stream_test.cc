// A session over a call that only the test moves.
#include "coordinator/service/session_stream.h"

#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <memory>
#include <optional>
#include <vector>

#include "coordinator/service/method.h"
#include "tests/coordinator/driver/hand_worker.h"

namespace diloco {
namespace {

using SessionReactor = grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse>;

class MockCall final : public grpc::ServerCallbackReaderWriter<v1::SessionRequest, v1::SessionResponse> {
 public:
  explicit MockCall(SessionReactor* reactor) : reactor_(reactor) { BindReactor(reactor); }

  void Hear(const v1::SessionRequest& request) {
    *reading_ = request;
    reactor_->OnReadDone(true);
  }
  void WriteComesBack() { reactor_->OnWriteDone(true); }

  std::vector<v1::Directive> written;
  std::optional<grpc::Status> finished;

 private:
  void Finish(grpc::Status status) override { finished = status; }
  void SendInitialMetadata() override {}
  void Read(v1::SessionRequest* request) override { reading_ = request; }
  void Write(const v1::SessionResponse* response, grpc::WriteOptions) override {
    written.push_back(response->directive());
  }
  void WriteAndFinish(const v1::SessionResponse*, grpc::WriteOptions, grpc::Status) override {}
  grpc::internal::ServerReactor* reactor() override { return reactor_; }
  void CallOnDone() override {}

  SessionReactor* const reactor_;
  v1::SessionRequest* reading_ = nullptr;
};

TEST(SessionStreamTest, ADirectiveThatWaitsBehindAWriteIsSentBeforeTheStop) {
  constexpr const char* kNoNames[] = {"only", "unused", "values", "here"};
  Coordinator coordinator(RunYaml(2, 3, "fp32", "fp32"));
  ASSERT_TRUE(coordinator.Start().ok());
  HandWorker east(&coordinator, "east", 1);
  HandWorker west(&coordinator, "west", 1);
  ASSERT_TRUE(east.Join().ok());
  prometheus::Registry registry;
  CoordinatorMetrics metrics(registry, {.methods = kMethodNames,
                                        .phases = kNoNames,
                                        .verdicts = kNoNames,
                                        .refusals = kRefusalNames,
                                        .limits = kCallLimitNames});
  Watchdog watchdog;
  StreamSet streams;
  Gatekeeper gate({.run_id = "test"}, &metrics);
  grpc::CallbackServerContext context;
  const ServiceWorld world{.run_id = "test",
                           .progress_deadline = absl::Hours(1),
                           .driver = coordinator.driver.get(),
                           .metrics = &metrics,
                           .watchdog = &watchdog,
                           .streams = &streams,
                           .gate = &gate};
  const auto stream = std::make_shared<SessionStream>(&world, &context);
  MockCall call(Launch(stream));

  call.Hear(east.Heartbeat());
  coordinator.Pump();
  ASSERT_EQ(call.written.size(), 1U);
  EXPECT_EQ(call.written[0].workers_joined(), 1U);
  ASSERT_TRUE(west.Join().ok());  // East is to hear of it, but the write is not back.
  EXPECT_EQ(call.written.size(), 1U);

  streams.Drain();
  EXPECT_FALSE(call.finished.has_value());
  call.WriteComesBack();
  ASSERT_EQ(call.written.size(), 2U);
  EXPECT_EQ(call.written[1].workers_joined(), 2U);
  EXPECT_FALSE(call.finished.has_value());
  call.WriteComesBack();
  ASSERT_TRUE(call.finished.has_value());
  EXPECT_EQ(call.finished->error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(call.written.size(), 2U);
  stream->OnDone();
}

}  // namespace
}  // namespace diloco
