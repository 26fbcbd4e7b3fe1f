// Mutual TLS between real ends: who is let in, who is not, and certificates that change under way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/rpc/coordinator_link.h"
#include "common/rpc/credentials.h"
#include "common/tls/development_authority.h"
#include "tests/common/rpc/echo_service.h"
#include "tests/support/certificates.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"

namespace diloco {
namespace {

using ::diloco::testing::CertificateSpec;
using ::diloco::testing::TempFolder;
using ::diloco::testing::WriteCertificate;
using ::testing::HasSubstr;

// Answers GetStatus with who called.
class IdentityService final : public v1::AdminService::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context, const v1::GetStatusRequest*,
                                      v1::GetStatusResponse* response) override {
    const absl::StatusOr<Identity> identity = PeerIdentity(*context->auth_context());
    response->set_reason(identity.ok() ? identity->Uri() : identity.status().ToString());
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

class TlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<DevelopmentAuthority> made = DevelopmentAuthority::Create(folder_.File("certs"), "r1");
    ASSERT_TRUE(made.ok()) << made.status();
    authority_.emplace(*std::move(made));
    ASSERT_TRUE(authority_->Issue(coordinator_, {"127.0.0.1"}, absl::Hours(1)).ok());
    ASSERT_TRUE(authority_->Issue(east_, {}, absl::Hours(1)).ok());
  }

  void Serve(const TlsFiles& files) {
    absl::StatusOr<RpcServer> server = StartRpcServer("--listen", {.address = {"127.0.0.1", 0}, .tls = files},
                                                      {{v1::AdminService::service_full_name(), &service_}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void Serve() { Serve(authority_->FilesOf(coordinator_)); }

  std::string address() const { return server_.address.ToString(); }

  // Whom the server takes a new connection for, or why there is none.
  std::string Connect(const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
    const absl::StatusOr<v1::GetStatusResponse> response = Call(MakeChannel(address(), credentials));
    return response.ok() ? response->reason() : response.status().ToString();
  }
  std::string Connect(const TlsFiles& files) const { return Connect(TlsChannelCredentials(files, "r1")); }

  TempFolder folder_;
  const Identity coordinator_ = {.run = "r1", .role = Role::kCoordinator, .name = ""};
  const Identity east_ = {.run = "r1", .role = Role::kWorker, .name = "east"};
  std::optional<DevelopmentAuthority> authority_;
  IdentityService service_;
  RpcServer server_;
};

TEST_F(TlsTest, BothEndsAreKnownToEachOther) {
  Serve();
  absl::StatusOr<CoordinatorLink> link = CoordinatorLink::Open(address(), authority_->FilesOf(east_));
  ASSERT_TRUE(link.ok()) << link.status();
  const absl::StatusOr<v1::GetStatusResponse> response = Call(link->NewChannel());
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->reason(), east_.Uri());
}

TEST_F(TlsTest, TheServerLetsNobodyInWhomItsAuthorityDoesNotVouchFor) {
  Serve();
  EXPECT_THAT(Connect(grpc::InsecureChannelCredentials()), HasSubstr("UNAVAILABLE"));
  grpc::SslCredentialsOptions without_certificate;
  without_certificate.pem_root_certs = ::diloco::testing::ReadFile(folder_.File("certs/ca.crt"));
  EXPECT_THAT(Connect(grpc::SslCredentials(without_certificate)), HasSubstr("UNAVAILABLE"));
  EXPECT_THAT(
      Connect(WriteCertificate(folder_.File("certs"), folder_.File("expired"),
                               {.uris = {east_.Uri()}, .valid_from = -absl::Hours(2), .valid_until = -absl::Hours(1)})),
      HasSubstr("UNAVAILABLE"));
  const auto other = DevelopmentAuthority::Create(folder_.File("other"), "r1");
  ASSERT_TRUE(other.ok() && other->Issue(east_, {}, absl::Hours(1)).ok());
  TlsFiles foreign = other->FilesOf(east_);
  foreign.authority = folder_.File("certs/ca.crt");
  EXPECT_THAT(Connect(foreign), HasSubstr("UNAVAILABLE"));
  EXPECT_EQ(Connect(authority_->FilesOf(east_)), east_.Uri());  // And nobody else is disturbed.
}

TEST_F(TlsTest, ACertificateThatDoesNotSayWhoseItIsGivesNoIdentity) {
  Serve();
  const std::string none = Connect(WriteCertificate(folder_.File("certs"), folder_.File("none"), {.uris = {}}));
  EXPECT_THAT(none, HasSubstr("UNAUTHENTICATED"));
  EXPECT_THAT(none, HasSubstr("0 URIs"));
  const std::string two = Connect(
      WriteCertificate(folder_.File("certs"), folder_.File("two"), {.uris = {east_.Uri(), "spiffe://r1/admin/east"}}));
  EXPECT_THAT(two, HasSubstr("2 URIs"));
  const std::string other =
      Connect(WriteCertificate(folder_.File("certs"), folder_.File("odd"), {.uris = {"spiffe://r1/root/east"}}));
  EXPECT_THAT(other, HasSubstr("UNAUTHENTICATED"));
}

TEST_F(TlsTest, TheClientConnectsToNobodyButTheCoordinatorOfItsRunAtThatHost) {
  struct Case {
    const char* name;
    CertificateSpec spec;
  };
  for (const Case& wrong :
       {Case{"worker", {.uris = {"spiffe://r1/worker/west"}}}, Case{"other-run", {.uris = {"spiffe://r2/coordinator"}}},
        Case{"two", {.uris = {coordinator_.Uri(), "spiffe://r2/coordinator"}}},
        Case{"other-host", {.uris = {coordinator_.Uri()}, .host = "127.0.0.2"}}}) {
    Serve(WriteCertificate(folder_.File("certs"), folder_.File(wrong.name), wrong.spec));
    EXPECT_THAT(Connect(authority_->FilesOf(east_)), HasSubstr("UNAVAILABLE")) << wrong.name;
  }
  Serve(WriteCertificate(folder_.File("certs"), folder_.File("right"), {.uris = {coordinator_.Uri()}}));
  EXPECT_EQ(Connect(authority_->FilesOf(east_)), east_.Uri());
}

TEST_F(TlsTest, NewCertificatesAreTakenUpByBothEndsWithoutARestart) {
  // The ones before are past their end, so nothing but the new ones lets a connection come about.
  ASSERT_TRUE(authority_->Issue(coordinator_, {"127.0.0.1"}, -absl::Minutes(1)).ok());
  ASSERT_TRUE(authority_->Issue(east_, {}, -absl::Minutes(1)).ok());
  Serve();
  const auto credentials = TlsChannelCredentials(authority_->FilesOf(east_), "r1");
  EXPECT_THAT(Connect(credentials), HasSubstr("UNAVAILABLE"));
  ASSERT_TRUE(authority_->Issue(coordinator_, {"127.0.0.1"}, absl::Hours(1)).ok());
  ASSERT_TRUE(authority_->Issue(east_, {}, absl::Hours(1)).ok());
  const SteadyClock clock;
  const MonotonicTime deadline = clock.Now() + absl::Seconds(60);
  std::string last = Connect(credentials);
  while (last != east_.Uri() && clock.Now() < deadline) last = Connect(credentials);
  EXPECT_EQ(last, east_.Uri());
}

TEST_F(TlsTest, AnOpenConnectionStaysWhenItsCertificateIsReplaced) {
  Serve();
  const auto channel = MakeChannel(address(), TlsChannelCredentials(authority_->FilesOf(east_), "r1"));
  ASSERT_TRUE(Call(channel).ok());
  const Identity west = {.run = "r1", .role = Role::kWorker, .name = "west"};
  ASSERT_TRUE(authority_->Issue(west, {}, absl::Hours(1)).ok());
  ASSERT_TRUE(authority_->Issue(coordinator_, {"127.0.0.1"}, absl::Hours(2)).ok());
  // Until a connection is made with the server's new certificate it would prove nothing.
  ASSERT_EQ(Connect(authority_->FilesOf(west)), west.Uri());
  EXPECT_EQ(Call(channel)->reason(), east_.Uri());
}

}  // namespace
}  // namespace diloco
