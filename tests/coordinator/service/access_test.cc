// Who may make which call: every RPC of both services, by every role, over real connections.
#include "coordinator/service/access.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"

#include "common/rpc/credentials.h"
#include "common/rpc/server.h"
#include "common/tls/development_authority.h"
#include "diloco/v1/admin.grpc.pb.h"
#include "tests/coordinator/service/raw_call.h"
#include "tests/coordinator/service/service_fixture.h"
#include "tests/support/certificates.h"

namespace diloco {
namespace {

using ::diloco::testing::WriteCertificate;
using ::testing::HasSubstr;

// Every RPC of both services, as the contract has them.
std::vector<const google::protobuf::MethodDescriptor*> AllRpcs() {
  std::vector<const google::protobuf::MethodDescriptor*> rpcs;
  for (const char* service : {v1::WorkerService::service_full_name(), v1::AdminService::service_full_name()}) {
    const auto* descriptor = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(service);
    for (int i = 0; i < descriptor->method_count(); ++i) rpcs.push_back(descriptor->method(i));
  }
  return rpcs;
}

std::string PathOf(const google::protobuf::MethodDescriptor& rpc) {
  return absl::StrFormat("/%s/%s", rpc.service()->full_name(), rpc.name());
}

constexpr const char* kLooks[] = {"Get", "List", "Describe", "Watch"};

// The contract in one sentence: workers train, viewers look, admins look and change, and each of them may ask what the
// run is and how good the way to it; a call of the administrators' plane that only looks is named for it.
bool IsAllowed(const google::protobuf::MethodDescriptor& rpc, Role role) {
  if (rpc.name() == "DescribeRun" || rpc.name() == "Probe") return role != Role::kCoordinator;
  if (rpc.service()->full_name() == v1::WorkerService::service_full_name()) return role == Role::kWorker;
  const std::string& name = rpc.name();
  const bool looks = std::any_of(std::begin(kLooks), std::end(kLooks),
                                 [&name](const char* verb) { return absl::StartsWith(name, verb); });
  return role == Role::kAdmin || (looks && role == Role::kViewer);
}

class AccessTest : public ServiceTest {
 protected:
  void SetUp() override {
    RouteGrpcLog();
    absl::StatusOr<DevelopmentAuthority> made = DevelopmentAuthority::Create(folder_.File("certs"), "r1");
    ASSERT_TRUE(made.ok()) << made.status();
    authority_.emplace(*std::move(made));
    tls_ = Files({.run = "r1", .role = Role::kCoordinator, .name = ""});
    Start();
  }

  TlsFiles Files(const Identity& identity) {
    const std::vector<std::string> hosts =
        identity.role == Role::kCoordinator ? std::vector<std::string>{"127.0.0.1"} : std::vector<std::string>{};
    EXPECT_TRUE(authority_->Issue(identity, hosts, absl::Hours(1)).ok());
    return authority_->FilesOf(identity);
  }
  std::shared_ptr<grpc::Channel> ChannelOf(const TlsFiles& files) {
    return MakeChannel(address(), TlsChannelCredentials(files, "r1"));
  }
  std::shared_ptr<grpc::Channel> ChannelOf(Role role, const std::string& name) {
    return ChannelOf(Files({.run = "r1", .role = role, .name = name}));
  }

  double Failures(Refusal why) const { return metrics_.authentication_failures[static_cast<size_t>(why)]->Value(); }

  std::optional<DevelopmentAuthority> authority_;
};

// The row of an RPC; the end of kMethodNames for one without.
const char* const* FindMethod(const google::protobuf::MethodDescriptor& rpc) {
  return std::find(std::begin(kMethodNames), std::end(kMethodNames), rpc.name());
}

TEST(AccessTableTest, HasEveryRpcOfTheContract) {
  size_t rpcs = 0;
  for (const google::protobuf::MethodDescriptor* rpc : AllRpcs()) {
    const auto* found = FindMethod(*rpc);
    ASSERT_NE(found, std::end(kMethodNames)) << rpc->name();
    ++rpcs;
    const Access access = AccessOf(static_cast<Method>(found - std::begin(kMethodNames)));
    for (const Role role : {Role::kWorker, Role::kViewer, Role::kAdmin, Role::kCoordinator}) {
      EXPECT_EQ(Allows(access, role), IsAllowed(*rpc, role)) << rpc->name() << " by " << RoleName(role);
    }
  }
  EXPECT_EQ(rpcs, std::size(kMethodNames));
}

TEST_F(AccessTest, EveryRpcTakesTheRolesOfTheTableAndNoOther) {
  for (const auto& [role, name] : {std::pair(Role::kWorker, "east"), std::pair(Role::kViewer, "vera"),
                                   std::pair(Role::kAdmin, "ada"), std::pair(Role::kCoordinator, "")}) {
    // A coordinator's own certificate is for servers; one for both ends shows that its role opens nothing.
    const Identity identity = {.run = "r1", .role = role, .name = name};
    const auto channel =
        role == Role::kCoordinator
            ? ChannelOf(WriteCertificate(folder_.File("certs"), folder_.File("both"), {.uris = {identity.Uri()}}))
            : ChannelOf(role, name);
    for (const google::protobuf::MethodDescriptor* rpc : AllRpcs()) {
      const double before = Failures(Refusal::kRole);
      RawCall call(channel, PathOf(*rpc), "");
      if (IsAllowed(*rpc, role)) {
        const bool endless =
            rpc->service()->full_name() == v1::AdminService::service_full_name() && rpc->server_streaming();
        if (endless) call.Cancel();
        EXPECT_NE(call.Result().first.error_code(), grpc::StatusCode::PERMISSION_DENIED)
            << rpc->name() << " by " << RoleName(role);
        EXPECT_EQ(Failures(Refusal::kRole), before);
        continue;
      }
      const grpc::Status status = call.Result().first;
      EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << rpc->name() << " by " << RoleName(role);
      EXPECT_THAT(status.error_message(), HasSubstr(rpc->name() + " is for "));
      EXPECT_THAT(status.error_message(), HasSubstr(identity.Uri()));
      EXPECT_EQ(Failures(Refusal::kRole), before + 1);
    }
  }
}

TEST_F(AccessTest, AWorkerSpeaksForItselfAloneInEveryMessageThatNamesOne) {
  const auto east = ChannelOf(Role::kWorker, "east");
  int named = 0;
  for (const google::protobuf::MethodDescriptor* rpc : AllRpcs()) {
    const auto* worker_id = rpc->input_type()->FindFieldByName("worker_id");
    if (rpc->service()->full_name() != v1::WorkerService::service_full_name() || worker_id == nullptr) continue;
    const std::unique_ptr<google::protobuf::Message> message(
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(rpc->input_type())->New());
    const auto set = [&message, rpc](const char* field, auto setter, auto value) {
      (message->GetReflection()->*setter)(message.get(), rpc->input_type()->FindFieldByName(field), value);
    };
    set("run_id", &google::protobuf::Reflection::SetString, std::string("r1"));
    set("worker_id", &google::protobuf::Reflection::SetString, std::string("west"));
    set("incarnation", &google::protobuf::Reflection::SetUInt64, uint64_t{7});
    const grpc::Status status = RawCall(east, PathOf(*rpc), message->SerializeAsString()).Result().first;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << rpc->name();
    EXPECT_THAT(status.error_message(), HasSubstr("\"west\"")) << rpc->name();
    EXPECT_THAT(status.error_message(), HasSubstr("spiffe://r1/worker/east")) << rpc->name();
    EXPECT_EQ(Failures(Refusal::kWorkerId), ++named);
  }
  EXPECT_EQ(named, 6);  // All but DescribeRun and Probe, which name no worker.

  v1::SessionRequest heartbeat;
  heartbeat.set_run_id("r1");
  heartbeat.set_worker_id("east");
  heartbeat.set_incarnation(7);
  heartbeat.add_evaluations()->set_worker_id("west");
  const grpc::Status status =
      RawCall(east, "/diloco.v1.WorkerService/Session", heartbeat.SerializeAsString()).Result().first;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(AccessTest, AWorkerTrainsAsItself) {
  WireWorker east(ChannelOf(Role::kWorker, "east"), "r1", "east", kElements);
  east.JoinAndSeed(Ramp());
  east.Contribute(0, Ramp());
  EXPECT_EQ(Failures(Refusal::kWorkerId) + Failures(Refusal::kRole), 0);
}

TEST_F(AccessTest, AnotherRunsCertificateOpensNothing) {
  // Of the same authority, as where one serves several runs.
  const auto channel =
      ChannelOf(WriteCertificate(folder_.File("certs"), folder_.File("r2"), {.uris = {"spiffe://r2/admin/ada"}}));
  const grpc::Status status = RawCall(channel, "/diloco.v1.AdminService/GetStatus", "").Result().first;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr("spiffe://r2/admin/ada"));
  EXPECT_THAT(status.error_message(), HasSubstr("this is run \"r1\""));
  EXPECT_EQ(Failures(Refusal::kOtherRun), 1);
}

TEST_F(AccessTest, ACertificateThatDoesNotSayWhoseItIsOpensNothing) {
  const auto channel = ChannelOf(WriteCertificate(folder_.File("certs"), folder_.File("none"), {.uris = {}}));
  const grpc::Status status = RawCall(channel, "/diloco.v1.WorkerService/Session", "").Result().first;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(status.error_message(), HasSubstr("exactly one"));
  EXPECT_EQ(Failures(Refusal::kNoIdentity), 1);
}

TEST_F(AccessTest, FailedHandshakesAreCounted) {
  const auto other = DevelopmentAuthority::Create(folder_.File("other"), "r1");
  const Identity east = {.run = "r1", .role = Role::kWorker, .name = "east"};
  ASSERT_TRUE(other.ok() && other->Issue(east, {}, absl::Hours(1)).ok());
  TlsFiles foreign = other->FilesOf(east);
  foreign.authority = folder_.File("certs/ca.crt");
  EXPECT_EQ(RawCall(ChannelOf(foreign), "/diloco.v1.WorkerService/DescribeRun", "").Result().first.error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_GE(Failures(Refusal::kHandshake), 1);
  EXPECT_TRUE(
      RawCall(ChannelOf(Role::kWorker, "east"), "/diloco.v1.WorkerService/DescribeRun", "").Result().first.ok());
}

TEST_F(AccessTest, HealthAnswersEveryCertificateOfTheAuthority) {
  for (const auto& channel : {ChannelOf(Role::kViewer, "probe"), ChannelOf(Role::kWorker, "east")}) {
    EXPECT_TRUE(RawCall(channel, "/grpc.health.v1.Health/Check", "").Result().first.ok());
  }
}

}  // namespace
}  // namespace diloco
