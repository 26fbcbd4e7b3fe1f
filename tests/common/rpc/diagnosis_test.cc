// Why a connection does not come about, in one sentence for each reason, against real servers.
#include "common/tls/diagnosis.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>

#include "common/rpc/coordinator_link.h"
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

// A listener on loopback that accepts nobody: its backlog takes the connection, and nothing is ever said.
class SilentListener {
 public:
  SilentListener() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~SilentListener() { close(fd_); }
  int port() const { return port_; }

 private:
  const int fd_;
  int port_ = 0;
};

class DiagnosisTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<DevelopmentAuthority> made = DevelopmentAuthority::Create(folder_.File("certs"), "r1");
    ASSERT_TRUE(made.ok()) << made.status();
    authority_.emplace(*std::move(made));
    ASSERT_TRUE(authority_->Issue(coordinator_, {"127.0.0.1"}, absl::Hours(1)).ok());
    ASSERT_TRUE(authority_->Issue(east_, {}, absl::Hours(1)).ok());
    east_files_ = authority_->FilesOf(east_);
  }

  void Serve(const TlsFiles& files) {
    absl::StatusOr<RpcServer> server =
        StartRpcServer("--listen", {.address = {"127.0.0.1", 0}, .tls = files}, {Named(&service_)});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    address_ = server_.address;
  }
  TlsFiles Made(const std::string& name, const CertificateSpec& spec) {
    return WriteCertificate(folder_.File("certs"), folder_.File(name), spec);
  }

  // What the diagnosis finds with `files`: one sentence, which names the address if it is about the coordinator.
  void ExpectFault(const TlsFiles& files, absl::StatusCode code, const std::string& part) {
    const absl::Status fault = DiagnoseConnection(address_, files, absl::Seconds(30));
    EXPECT_EQ(fault.code(), code) << fault;
    const std::string sentence(fault.message());
    EXPECT_THAT(sentence, HasSubstr(part));
    EXPECT_EQ(sentence.find('\n'), std::string::npos);
    if (code == absl::StatusCode::kUnauthenticated) {
      EXPECT_THAT(sentence, ::testing::StartsWith("coordinator " + address_.ToString() + ": "));
    }
  }

  TempFolder folder_;
  const Identity coordinator_ = {.run = "r1", .role = Role::kCoordinator, .name = ""};
  const Identity east_ = {.run = "r1", .role = Role::kWorker, .name = "east"};
  std::optional<DevelopmentAuthority> authority_;
  TlsFiles east_files_;
  EchoService service_;
  RpcServer server_;
  HostPort address_;
};

TEST_F(DiagnosisTest, NothingIsWrong) {
  Serve(authority_->FilesOf(coordinator_));
  const absl::StatusOr<CoordinatorLink> link = CoordinatorLink::Open(address_.ToString(), east_files_);
  ASSERT_TRUE(link.ok());
  EXPECT_TRUE(link->Diagnose().ok()) << link->Diagnose();
  Serve(TlsFiles());
  EXPECT_TRUE(CoordinatorLink::Open(address_.ToString(), {})->Diagnose().ok());
}

TEST_F(DiagnosisTest, OneEndSpeaksTlsAndTheOtherDoesNot) {
  Serve(authority_->FilesOf(coordinator_));
  ExpectFault(TlsFiles(), absl::StatusCode::kInvalidArgument, "it wants TLS; give --tls-cert");
  Serve(TlsFiles());
  ExpectFault(east_files_, absl::StatusCode::kInvalidArgument, "it speaks plaintext; leave out --tls-cert");
}

TEST_F(DiagnosisTest, WhatIsWrongWithTheCoordinatorsCertificate) {
  const auto other = DevelopmentAuthority::Create(folder_.File("other"), "r1");
  ASSERT_TRUE(other.ok() && other->Issue(coordinator_, {"127.0.0.1"}, absl::Hours(1)).ok());
  Serve(other->FilesOf(coordinator_));
  ExpectFault(east_files_, absl::StatusCode::kUnauthenticated,
              "its certificate is signed by another authority than " + east_files_.authority);
  Serve(Made("expired", {.uris = {coordinator_.Uri()}, .valid_from = -absl::Hours(2), .valid_until = -absl::Hours(1)}));
  ExpectFault(east_files_, absl::StatusCode::kUnauthenticated, "its certificate expired on 20");
  Serve(Made("host", {.uris = {coordinator_.Uri()}, .host = "127.0.0.2"}));
  ExpectFault(east_files_, absl::StatusCode::kUnauthenticated, "its certificate is for the host 127.0.0.2");
  Serve(Made("role", {.uris = {"spiffe://r1/worker/west"}}));
  ExpectFault(east_files_, absl::StatusCode::kUnauthenticated,
              "its certificate is for spiffe://r1/worker/west; this needs spiffe://r1/coordinator");
  Serve(Made("run", {.uris = {"spiffe://r2/coordinator"}}));
  ExpectFault(east_files_, absl::StatusCode::kUnauthenticated, "its certificate is for spiffe://r2/coordinator");
  Serve(Made("none", {.uris = {}}));
  ExpectFault(east_files_, absl::StatusCode::kUnauthenticated, "has no URI");
}

TEST_F(DiagnosisTest, WhatTheCoordinatorDoesNotAccept) {
  Serve(authority_->FilesOf(coordinator_));
  const auto other = DevelopmentAuthority::Create(folder_.File("other"), "r1");
  ASSERT_TRUE(other.ok() && other->Issue(east_, {}, absl::Hours(1)).ok());
  // Ours trusts both authorities, so that the fault is the coordinator's to find.
  const TlsFiles foreign = other->FilesOf(east_);
  ::diloco::testing::WriteFile(foreign.authority, ::diloco::testing::ReadFile(foreign.authority) +
                                                      ::diloco::testing::ReadFile(east_files_.authority));
  ExpectFault(foreign, absl::StatusCode::kUnauthenticated,
              "it refused the certificate in " + foreign.certificate +
                  ": it is expired, or signed by another authority than the coordinator's --tls-ca");
}

TEST_F(DiagnosisTest, OurOwnFilesComeFirst) {
  Serve(authority_->FilesOf(coordinator_));
  const TlsFiles expired =
      Made("expired", {.uris = {east_.Uri()}, .valid_from = -absl::Hours(2), .valid_until = -absl::Hours(1)});
  ExpectFault(expired, absl::StatusCode::kInvalidArgument, expired.certificate + ": expired on 20");
}

TEST_F(DiagnosisTest, WhatMayPassIsUnavailable) {
  Serve(authority_->FilesOf(coordinator_));
  server_.server->Shutdown();
  server_.server.reset();
  ExpectFault(east_files_, absl::StatusCode::kUnavailable, "Connection refused");
  ExpectFault(TlsFiles(), absl::StatusCode::kUnavailable, "Connection refused");
  address_ = {"name.invalid", 7070};
  ExpectFault(east_files_, absl::StatusCode::kUnavailable, "cannot resolve the host");
  const SilentListener silent;
  const absl::Status waited = DiagnoseConnection({"127.0.0.1", silent.port()}, east_files_, absl::Milliseconds(200));
  EXPECT_EQ(waited.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(waited.message()), HasSubstr("no answer"));
}

}  // namespace
}  // namespace diloco
