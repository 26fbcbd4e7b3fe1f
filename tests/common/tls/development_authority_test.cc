#include "common/tls/development_authority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <optional>
#include <string>
#include <vector>

#include "common/tls/certificate.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"

namespace diloco {
namespace {

using ::diloco::testing::ReadFile;
using ::diloco::testing::WriteFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DevelopmentAuthorityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<DevelopmentAuthority> made = DevelopmentAuthority::Create(folder_.File("certs"), "r1");
    ASSERT_TRUE(made.ok()) << made.status();
    authority_.emplace(*std::move(made));
  }

  static mode_t ModeOf(const std::string& path) {
    struct stat facts = {};
    EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
    return facts.st_mode & 0777;
  }

  ::diloco::testing::TempFolder folder_;
  std::optional<DevelopmentAuthority> authority_;
  const Identity coordinator_ = {.run = "r1", .role = Role::kCoordinator, .name = ""};
  const Identity east_ = {.run = "r1", .role = Role::kWorker, .name = "east"};
};

TEST_F(DevelopmentAuthorityTest, WhatItIssuesPassesTheChecksAndKeysAreTheOwnersAlone) {
  ASSERT_TRUE(authority_->Issue(coordinator_, {"localhost", "127.0.0.1", "::1"}, absl::Hours(1)).ok());
  ASSERT_TRUE(authority_->Issue(east_, {}, absl::Hours(1)).ok());
  for (const Identity& identity : {coordinator_, east_}) {
    const TlsFiles files = authority_->FilesOf(identity);
    const absl::StatusOr<OwnCertificate> own = CheckTlsFiles(files);
    ASSERT_TRUE(own.ok()) << own.status();
    EXPECT_EQ(own->identity, identity);
    EXPECT_EQ(ModeOf(files.key), 0600u);
  }
  EXPECT_EQ(authority_->FilesOf(coordinator_).certificate, folder_.File("certs/coordinator/tls.crt"));
  EXPECT_EQ(authority_->FilesOf(east_).certificate, folder_.File("certs/worker-east/tls.crt"));
  EXPECT_EQ(ModeOf(folder_.File("certs/ca.key")), 0600u);
  const auto chain = ReadCertificateChain(authority_->FilesOf(coordinator_).certificate);
  ASSERT_TRUE(chain.ok());
  EXPECT_THAT(HostsOf(chain->leaf.get()), ElementsAre("localhost", "127.0.0.1", "::1"));
}

TEST_F(DevelopmentAuthorityTest, AnAuthorityThatIsThereStays) {
  const std::string before = ReadFile(folder_.File("certs/ca.key"));
  const absl::Status again = DevelopmentAuthority::Create(folder_.File("certs"), "r2").status();
  EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(again.message()), HasSubstr("certs issue"));
  EXPECT_EQ(ReadFile(folder_.File("certs/ca.key")), before);
}

TEST_F(DevelopmentAuthorityTest, OpenedAgainItIssuesAndRenewsForTheSameRun) {
  ASSERT_TRUE(authority_->Issue(coordinator_, {"coordinator.example", "10.0.0.5"}, absl::Hours(1)).ok());
  const absl::StatusOr<DevelopmentAuthority> opened = DevelopmentAuthority::Open(folder_.File("certs"));
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->run(), "r1");
  ASSERT_TRUE(opened->Issue(east_, {}, absl::Hours(1)).ok());
  const TlsFiles files = opened->FilesOf(coordinator_);
  const std::string before = ReadFile(files.key);
  ASSERT_TRUE(opened->Renew(coordinator_, absl::Hours(5)).ok());
  EXPECT_NE(ReadFile(files.key), before);
  const absl::StatusOr<OwnCertificate> own = CheckTlsFiles(files);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_GT(own->expires, absl::Now() + absl::Hours(4));
  EXPECT_THAT(HostsOf(ReadCertificateChain(files.certificate)->leaf.get()),
              ElementsAre("coordinator.example", "10.0.0.5"));
  const absl::StatusOr<std::vector<Identity>> issued = opened->Issued();
  ASSERT_TRUE(issued.ok()) << issued.status();
  EXPECT_THAT(*issued, ElementsAre(coordinator_, east_));
}

TEST_F(DevelopmentAuthorityTest, AFolderWithoutOneIsSaid) {
  const absl::Status absent = DevelopmentAuthority::Open(folder_.File("none")).status();
  EXPECT_EQ(absent.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(absent.message()), HasSubstr("certs init"));
  // A certificate of the authority is none itself.
  ASSERT_TRUE(authority_->Issue(east_, {}, absl::Hours(1)).ok());
  const TlsFiles files = authority_->FilesOf(east_);
  WriteFile(folder_.File("certs/ca.crt"), ReadFile(files.certificate));
  EXPECT_EQ(DevelopmentAuthority::Open(folder_.File("certs")).status().code(), absl::StatusCode::kInvalidArgument);
  WriteFile(folder_.File("certs/ca.key"), ReadFile(files.key));
  EXPECT_EQ(DevelopmentAuthority::Open(folder_.File("certs")).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(DevelopmentAuthorityTest, HostsAreNamesOrAddresses) {
  for (const char* good : {"coordinator.example", "10.0.0.5", "::1", "localhost"}) {
    EXPECT_TRUE(CheckHost("--coordinator-name", good).ok()) << good;
  }
  for (const char* bad : {"", "a b", "host:7070", "x,URI:spiffe://r1/admin/x", "*.example"}) {
    const absl::Status status = CheckHost("--coordinator-name", bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--coordinator-name")) << bad;
  }
}

}  // namespace
}  // namespace diloco
