// `dilococtl certs`: what it makes, what it says, what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/tls/tls_files.h"
#include "tests/coordinator/ctl/offline.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

using ::diloco::testing::ReadFile;
using ::testing::HasSubstr;

class CertsCommandTest : public ::testing::Test {
 protected:
  // The exit code of `dilococtl certs ARGUMENTS`; what was printed is in out_ and err_.
  int Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "certs");
    const int code = offline_.Run(std::move(arguments));
    out_ = offline_.out;
    err_ = offline_.err;
    return code;
  }
  int Init() {
    return Run({"init", "--run", "r1", "--out", certs_, "--worker", "east", "--worker", "west", "--coordinator-name",
                "localhost"});
  }
  std::string IdentityIn(const std::string& folder) const {
    const std::string path = certs_ + "/" + folder;
    const absl::StatusOr<OwnCertificate> own =
        CheckTlsFiles({.certificate = path + "/tls.crt", .key = path + "/tls.key", .authority = path + "/ca.crt"});
    return own.ok() ? own->identity.Uri() : own.status().ToString();
  }

  ::diloco::testing::TempFolder folder_;
  const std::string certs_ = folder_.File("certs");
  Offline offline_;
  std::string out_;
  std::string err_;
};

TEST_F(CertsCommandTest, InitMakesWhatEachPartyNeeds) {
  ASSERT_EQ(Init(), 0) << err_;
  EXPECT_EQ(IdentityIn("coordinator"), "spiffe://r1/coordinator");
  EXPECT_EQ(IdentityIn("worker-east"), "spiffe://r1/worker/east");
  EXPECT_EQ(IdentityIn("worker-west"), "spiffe://r1/worker/west");
  EXPECT_EQ(IdentityIn("admin"), "spiffe://r1/admin/admin");
  EXPECT_EQ(IdentityIn("viewer"), "spiffe://r1/viewer/viewer");
  EXPECT_THAT(out_, HasSubstr("spiffe://r1/worker/east"));
  EXPECT_THAT(out_, HasSubstr(certs_ + "/worker-east/tls.crt"));
}

TEST_F(CertsCommandTest, IssueAddsAWorkerAndRenewsAll) {
  ASSERT_EQ(Init(), 0) << err_;
  ASSERT_EQ(Run({"issue", "--out", certs_, "--worker", "north"}), 0) << err_;
  EXPECT_EQ(IdentityIn("worker-north"), "spiffe://r1/worker/north");
  const std::string before = ReadFile(certs_ + "/worker-east/tls.key");
  ASSERT_EQ(Run({"issue", "--out", certs_, "--days", "7", "-o", "json"}), 0) << err_;
  const nlohmann::json made = nlohmann::json::parse(out_);
  EXPECT_EQ(made["certificates"].size(), 6u) << out_;
  EXPECT_NE(ReadFile(certs_ + "/worker-east/tls.key"), before);
  EXPECT_EQ(IdentityIn("worker-east"), "spiffe://r1/worker/east");
}

TEST_F(CertsCommandTest, WhatIsWrongIsOneSentenceAndNothingIsMade) {
  struct Case {
    std::vector<std::string> arguments;
    int exit_code;
    const char* part;
  };
  for (const Case& wrong :
       {Case{{"init", "--out", certs_, "--coordinator-name", "h"}, 2, "--run is required"},
        Case{{"init", "--run", "r1", "--out", certs_}, 2, "--coordinator-name"},
        Case{{"init", "--run", "r/1", "--out", certs_, "--coordinator-name", "h"}, 2, "--run \"r/1\""},
        Case{{"init", "--run", "r1", "--out", certs_, "--coordinator-name", "h:7070"}, 2, "h:7070"},
        Case{{"init", "--run", "r1", "--out", certs_, "--coordinator-name", "h", "--worker", "../x"}, 2, "--worker"},
        Case{{"init", "--run", "r1", "--out", certs_, "--coordinator-name", "h", "--days", "0"}, 2, "--days"},
        Case{{"init", "--run", "r1", "--out", certs_, "--coordinator-name", "h", "--days", "3651"},
             2,
             "--days: Value 3651 not in range 1 to 3650"},
        Case{{"issue", "--out", certs_}, 4, "there is no authority"}}) {
    EXPECT_EQ(Run(wrong.arguments), wrong.exit_code) << err_;
    EXPECT_THAT(err_, HasSubstr(wrong.part));
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
    EXPECT_EQ(ReadFile(certs_ + "/ca.crt"), "");
  }
  ASSERT_EQ(Init(), 0) << err_;
  EXPECT_EQ(Init(), 5);
  EXPECT_THAT(err_, HasSubstr("there is an authority already"));
}

}  // namespace
}  // namespace diloco
