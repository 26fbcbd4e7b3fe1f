// Unary calls and sessions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>

#include "diloco/v1/admin.grpc.pb.h"
#include "tests/coordinator/service/service_fixture.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;

using ControlTest = ServiceTest;
using SessionPair = grpc::ClientReaderWriter<v1::SessionRequest, v1::SessionResponse>;

TEST_F(ControlTest, DescribesTheRunWithItsConfigurationAsItIsWritten) {
  Start();
  WireWorker worker = Worker();
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::DescribeRunResponse response;
  const grpc::Status status = worker.stub().DescribeRun(&context, {}, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.run_id(), "r1");
  EXPECT_EQ(response.config_yaml(), kConfig);
  EXPECT_EQ(response.protocol_version(), kProtocolVersion);
}

TEST_F(ControlTest, TheFirstToJoinIsToldToSeed) {
  Start();
  WireWorker worker = Worker();
  ASSERT_TRUE(worker.Join().ok());
  EXPECT_EQ(worker.joined().directive().state(), v1::RUN_STATE_SEEDING);
  EXPECT_TRUE(worker.joined().directive().seed());
  EXPECT_EQ(worker.joined().layout_digest().value().size(), 16);
}

TEST_F(ControlTest, RefusesAWorkerOfAnotherRun) {
  Start();
  EXPECT_EQ(Worker("east", kElements, "r2").Join().code(), absl::StatusCode::kNotFound);
}

TEST_F(ControlTest, RefusesJoinsOfBadForm) {
  Start();
  WireWorker worker = Worker();
  v1::JoinRequest bad_id = worker.JoinMessage();
  bad_id.set_worker_id("../east");
  v1::JoinRequest no_incarnation = worker.JoinMessage();
  no_incarnation.set_incarnation(0);
  v1::JoinRequest long_tensor = worker.JoinMessage();
  long_tensor.mutable_tensors(0)->set_name(std::string(kMaxTensorNameBytes + 1, 'x'));
  v1::JoinRequest other_version = worker.JoinMessage();
  other_version.set_protocol_version(kProtocolVersion + 1);
  for (const v1::JoinRequest& request : {bad_id, no_incarnation, long_tensor, other_version}) {
    EXPECT_EQ(worker.Join(request).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(worker.Join().ok());
}

TEST_F(ControlTest, AnswersAHeartbeatWithADirective) {
  Start();
  WireWorker worker = Worker();
  worker.JoinAndSeed(Ramp());
  grpc::ClientContext context;
  SetDeadline(&context);
  const std::unique_ptr<SessionPair> session = worker.stub().Session(&context);
  ASSERT_TRUE(session->Write(worker.Signed<v1::SessionRequest>()));
  v1::SessionResponse response;
  do {  // The start of training may still be on its way to the disk.
    ASSERT_TRUE(session->Read(&response));
    EXPECT_EQ(response.run_id(), "r1");
  } while (response.directive().state() == v1::RUN_STATE_WAITING_FOR_WORKERS);
  EXPECT_EQ(response.directive().state(), v1::RUN_STATE_TRAINING);
  session->WritesDone();
  EXPECT_TRUE(session->Finish().ok());
}

TEST_F(ControlTest, EndsTheSessionOfWhoIsNoMember) {
  Start();
  WireWorker worker = Worker();
  grpc::ClientContext context;
  SetDeadline(&context);
  const std::unique_ptr<SessionPair> session = worker.stub().Session(&context);
  ASSERT_TRUE(session->Write(worker.Signed<v1::SessionRequest>()));
  v1::SessionResponse response;
  EXPECT_FALSE(session->Read(&response));
  EXPECT_EQ(session->Finish().error_code(), grpc::StatusCode::ABORTED);
}

TEST_F(ControlTest, EndsASessionWithAMessageOfBadForm) {
  Start();
  WireWorker worker = Worker();
  ASSERT_TRUE(worker.Join().ok());
  auto request = worker.Signed<v1::SessionRequest>();
  for (int i = 0; i <= kMaxEvaluationsPerHeartbeat; ++i) request.add_evaluations()->set_worker_id("east");
  grpc::ClientContext context;
  SetDeadline(&context);
  const std::unique_ptr<SessionPair> session = worker.stub().Session(&context);
  ASSERT_TRUE(session->Write(request));
  v1::SessionResponse response;
  EXPECT_FALSE(session->Read(&response));
  const grpc::Status status = session->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("evaluations is 17; the limit is 16"));
}

TEST_F(ControlTest, AnswersAdministratorsAndCountsTheirCalls) {
  Start();
  WireWorker worker = Worker();
  worker.JoinAndSeed(Ramp());
  const auto admin = v1::AdminService::NewStub(MakeChannel(address()));
  v1::GetStatusRequest request;
  v1::GetStatusResponse status;
  {
    grpc::ClientContext context;
    SetDeadline(&context);
    ASSERT_TRUE(admin->GetStatus(&context, request, &status).ok());
  }
  EXPECT_EQ(status.run_id(), "r1");
  EXPECT_EQ(status.parameters(), kElements);
  EXPECT_EQ(status.workers_alive(), 1);
  {
    grpc::ClientContext context;
    SetDeadline(&context);
    request.set_run_id("r2");
    EXPECT_EQ(admin->GetStatus(&context, request, &status).error_code(), grpc::StatusCode::NOT_FOUND);
  }
  service_->Stop(absl::ZeroDuration());  // Every call is counted when it has ended.
  const std::string scrape = prometheus::TextSerializer().Serialize(registry_.Collect());
  EXPECT_THAT(scrape, HasSubstr("diloco_rpc_server_handled_total{code=\"OK\",method=\"GetStatus\"} 1"));
  EXPECT_THAT(scrape, HasSubstr("diloco_rpc_server_handled_total{code=\"NOT_FOUND\",method=\"GetStatus\"} 1"));
  EXPECT_THAT(scrape, HasSubstr("diloco_rpc_server_handled_total{code=\"OK\",method=\"Seed\"} 1"));
  EXPECT_THAT(scrape, HasSubstr("diloco_rpc_server_open{method=\"Seed\"} 0"));
  EXPECT_THAT(scrape, HasSubstr("diloco_rpc_server_handling_seconds_count{method=\"Seed\"} 1"));
  EXPECT_THAT(scrape, HasSubstr("diloco_rpc_server_handling_seconds_count{method=\"GetStatus\"} 2"));
}

}  // namespace
}  // namespace diloco
