// The standard services (health, reflection) and the end of the service.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/coordinator/service/raw_call.h"
#include "tests/coordinator/service/service_fixture.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;

using StandardTest = ServiceTest;

// grpc.health.v1: HealthCheckRequest{service = 1}, HealthCheckResponse{status = 1}, SERVING = 1.
std::string HealthRequest(const std::string& service) {
  return service.empty() ? "" : std::string("\x0A") + static_cast<char>(service.size()) + service;
}
constexpr char kHealthMethod[] = "/grpc.health.v1.Health/Check";
constexpr char kServing[] = "\x08\x01";

TEST_F(StandardTest, EachServiceIsReportedAsServing) {
  Start();
  const auto channel = MakeChannel(address());
  for (const char* service : {"", "diloco.v1.WorkerService", "diloco.v1.AdminService"}) {
    const auto [status, response] = RawCall(channel, kHealthMethod, HealthRequest(service)).Result();
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response, kServing) << service;
  }
  const auto [status, response] = RawCall(channel, kHealthMethod, HealthRequest("diloco.v1.Other")).Result();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(StandardTest, ReflectionListsTheServicesWhenItIsOn) {
  // grpc.reflection.v1alpha: ServerReflectionRequest{list_services = 7}.
  const std::string list = "\x3A\x01*";
  constexpr char kMethod[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  Start();
  EXPECT_EQ(RawCall(MakeChannel(address()), kMethod, list).Result().first.error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  TearDown();
  service_.reset();
  driver_.reset();
  store_.reset();
  Start(kStreamProgressDeadline, /*reflection=*/true);
  const auto [status, response] = RawCall(MakeChannel(address()), kMethod, list).Result();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(response, HasSubstr("diloco.v1.WorkerService"));
  EXPECT_THAT(response, HasSubstr("diloco.v1.AdminService"));
}

TEST_F(StandardTest, ARequestThatIsNoMessageIsRefused) {
  Start();
  const auto channel = MakeChannel(address());
  // A string that claims more bytes than there are.
  const std::string garbage = "\x0A\x7F";
  EXPECT_EQ(RawCall(channel, "/diloco.v1.WorkerService/Subscribe", garbage).Result().first.error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_FALSE(RawCall(channel, "/diloco.v1.WorkerService/Join", garbage).Result().first.ok());
}

TEST_F(StandardTest, StoppingEndsSessionsSubscriptionsAndIdleUploadsAtOnce) {
  Start();
  WireWorker worker = Worker();
  worker.JoinAndSeed(Ramp());
  grpc::ClientContext session_context;
  SetDeadline(&session_context);
  const auto session = worker.stub().Session(&session_context);
  ASSERT_TRUE(session->Write(worker.Signed<v1::SessionRequest>()));
  v1::SessionResponse directive;
  ASSERT_TRUE(session->Read(&directive));
  auto request = worker.Signed<v1::SubscribeRequest>();
  request.add_next_rounds(0);
  grpc::ClientContext subscribe_context;
  SetDeadline(&subscribe_context);
  const auto subscription = worker.stub().Subscribe(&subscribe_context, request);
  WireWorker::Upload upload = worker.OpenUpload();
  ASSERT_TRUE(upload.stream->Write(worker.Contribution(0, Ramp())[0]));
  v1::UploadResponse held;
  ASSERT_TRUE(upload.stream->Read(&held));

  // Longer than the test may take: it returns because nothing is open any more.
  service_->Stop(absl::Hours(1));

  while (session->Read(&directive)) {
  }
  EXPECT_EQ(session->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(subscription->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(upload.stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(StandardTest, StoppingCancelsATransferThatOutlastsTheDeadline) {
  Start();
  WireWorker worker = Worker();
  ASSERT_TRUE(worker.Join().ok());
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::SeedResponse response;
  const auto seed = worker.stub().Seed(&context, &response);
  ASSERT_TRUE(seed->Write(worker.SeedMessages(FloatBytes(Ramp()))[0]));
  service_->Stop(absl::ZeroDuration());
  EXPECT_FALSE(seed->Finish().ok());
}

TEST_F(StandardTest, AReaderThatStallsIsGivenUp) {
  // More than the windows of a connection take in.
  constexpr int64_t kLarge = 8'000'000;
  Start(/*progress_deadline=*/absl::Milliseconds(250));
  WireWorker worker = Worker("east", kLarge);
  ASSERT_TRUE(worker.Join().ok());
  absl::Status status;
  do {
    status = worker.Seed(worker.SeedMessages(FloatBytes(Ramp(kLarge))));  // A busy machine may miss this deadline too.
  } while (absl::IsDeadlineExceeded(status) || absl::IsCancelled(status));
  ASSERT_TRUE(status.ok()) << status;
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto reader = worker.stub().FetchSnapshot(&context, worker.Signed<v1::FetchSnapshotRequest>());
  v1::FetchSnapshotResponse response;
  ASSERT_TRUE(reader->Read(&response));
  // A snapshot under way is not drained, and nobody reads it: this returns because its write was given up.
  service_->Stop(absl::Hours(1));
  while (reader->Read(&response)) {
  }
  EXPECT_FALSE(reader->Finish().ok());
}

}  // namespace
}  // namespace diloco
