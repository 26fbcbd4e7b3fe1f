// Each fault of the three files is one sentence that names the file.
#include "common/tls/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>

#include <filesystem>
#include <string>
#include <utility>

#include "common/tls/certificate.h"
#include "common/tls/development_authority.h"
#include "tests/support/certificates.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"

namespace diloco {
namespace {

using ::diloco::testing::CertificateSpec;
using ::diloco::testing::ReadFile;
using ::diloco::testing::WriteCertificate;
using ::diloco::testing::WriteFile;
using ::testing::HasSubstr;

class TlsFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto authority = DevelopmentAuthority::Create(folder_.File("authority"), "r1");
    ASSERT_TRUE(authority.ok()) << authority.status();
    ASSERT_TRUE(authority->Issue(east_, {}, absl::Hours(1)).ok());
    files_ = authority->FilesOf(east_);
  }

  TlsFiles Made(const CertificateSpec& spec) {
    return WriteCertificate(folder_.File("authority"), folder_.File("made"), spec);
  }

  // The sentence about `files`, which names the file `named`.
  static std::string FaultOf(const TlsFiles& files, const std::string& named) {
    const absl::Status status = CheckTlsFiles(files).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    const std::string sentence(status.message());
    EXPECT_EQ(sentence.find('\n'), std::string::npos) << sentence;
    EXPECT_THAT(sentence, ::testing::StartsWith(named + ": "));
    return sentence;
  }

  ::diloco::testing::TempFolder folder_;
  const Identity east_ = {.run = "r1", .role = Role::kWorker, .name = "east"};
  TlsFiles files_;
};

TEST_F(TlsFilesTest, GoodOnesSayWhoseTheyAre) {
  const absl::StatusOr<OwnCertificate> own = CheckTlsFiles(files_);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->identity, east_);
  EXPECT_GT(own->expires, absl::Now() + absl::Minutes(59));
  EXPECT_LT(own->expires, absl::Now() + absl::Minutes(61));
}

TEST_F(TlsFilesTest, AllThreeOrNone) {
  EXPECT_TRUE(TlsFiles().CheckComplete().ok());
  EXPECT_TRUE(files_.CheckComplete().ok());
  for (const auto& [without, flag] :
       {std::pair(&TlsFiles::certificate, "--tls-cert is missing"), std::pair(&TlsFiles::key, "--tls-key is missing"),
        std::pair(&TlsFiles::authority, "--tls-ca is missing")}) {
    TlsFiles some = files_;
    (some.*without).clear();
    EXPECT_THAT(std::string(some.CheckComplete().message()), HasSubstr(flag));
    TlsFiles one;
    one.*without = "x";
    EXPECT_FALSE(one.CheckComplete().ok());
  }
}

TEST_F(TlsFilesTest, WhatCannotBeReadOrHoldsSomethingElse) {
  for (std::string TlsFiles::*file : {&TlsFiles::certificate, &TlsFiles::key, &TlsFiles::authority}) {
    TlsFiles files = files_;
    files.*file = folder_.File("absent.pem");
    EXPECT_THAT(FaultOf(files, files.*file), HasSubstr("No such file"));
    files.*file = folder_.File("");
    FaultOf(files, files.*file);  // A folder.
    files.*file = folder_.File("empty.pem");
    WriteFile(files.*file, "");
    EXPECT_THAT(FaultOf(files, files.*file), HasSubstr("use PEM"));
    WriteFile(files.*file, std::string(kMaxPemBytes + 1, 'x'));
    EXPECT_THAT(FaultOf(files, files.*file), HasSubstr("has more than 1048576 bytes"));
  }
  TlsFiles swapped = {.certificate = files_.key, .key = files_.certificate, .authority = files_.authority};
  EXPECT_THAT(FaultOf(swapped, files_.key), HasSubstr("holds no certificate"));
}

TEST_F(TlsFilesTest, ADamagedCertificateIsNotSkipped) {
  std::string text = ReadFile(files_.certificate);
  text[text.size() / 2] = text[text.size() / 2] == 'A' ? 'B' : '*';
  WriteFile(files_.certificate, text);
  EXPECT_THAT(FaultOf(files_, files_.certificate), HasSubstr("damaged"));
}

TEST_F(TlsFilesTest, AKeyOfAnotherCertificate) {
  const TlsFiles other = Made({.uris = {east_.Uri()}});
  TlsFiles mixed = files_;
  mixed.key = other.key;
  EXPECT_THAT(FaultOf(mixed, mixed.key), HasSubstr("is not the key of the certificate in " + files_.certificate));
}

TEST_F(TlsFilesTest, AnEncryptedKeyIsSaidAndNotAskedFor) {
  const absl::StatusOr<openssl::Key> key = ReadPrivateKey(files_.key);
  ASSERT_TRUE(key.ok());
  const unsigned char passphrase[] = "secret";
  {
    const openssl::Bio file(BIO_new_file(files_.key.c_str(), "w"));
    ASSERT_EQ(PEM_write_bio_PrivateKey(file.get(), key->get(), EVP_aes_128_cbc(), passphrase, 6, nullptr, nullptr), 1);
  }
  EXPECT_THAT(FaultOf(files_, files_.key), HasSubstr("is encrypted"));
}

TEST_F(TlsFilesTest, ExpiredOrNotYetValid) {
  const TlsFiles expired = Made({.uris = {east_.Uri()}, .valid_from = -absl::Hours(2), .valid_until = -absl::Hours(1)});
  EXPECT_THAT(FaultOf(expired, expired.certificate), HasSubstr("expired on 20"));
  const TlsFiles early = Made({.uris = {east_.Uri()}, .valid_from = absl::Hours(1), .valid_until = absl::Hours(2)});
  EXPECT_THAT(FaultOf(early, early.certificate), HasSubstr("is not valid before 20"));
}

TEST_F(TlsFilesTest, OfAnotherAuthority) {
  const auto other = DevelopmentAuthority::Create(folder_.File("other"), "r1");
  ASSERT_TRUE(other.ok());
  TlsFiles files = files_;
  files.authority = folder_.File("other/ca.crt");
  EXPECT_THAT(FaultOf(files, files.certificate), HasSubstr("is signed by another authority than " + files.authority));
}

TEST_F(TlsFilesTest, ForTheOtherEndOfAConnection) {
  const TlsFiles server = Made({.uris = {east_.Uri()}, .usage = "serverAuth"});
  EXPECT_THAT(FaultOf(server, server.certificate), HasSubstr("extended key usage"));
}

TEST_F(TlsFilesTest, ExactlyOneUri) {
  const TlsFiles none = Made({.uris = {}});
  EXPECT_THAT(FaultOf(none, none.certificate), HasSubstr("has no URI"));
  const TlsFiles two = Made({.uris = {east_.Uri(), "spiffe://r1/admin/east"}});
  EXPECT_THAT(FaultOf(two, two.certificate), HasSubstr("more than one URI"));
  const TlsFiles other = Made({.uris = {"https://example.com/east"}});
  EXPECT_THAT(FaultOf(other, other.certificate), HasSubstr("https://example.com/east"));
}

TEST_F(TlsFilesTest, ForSomebodyElse) {
  EXPECT_TRUE(CheckTlsFilesFor(files_, {.run = "", .role = Role::kWorker, .name = "east"}).ok());
  for (const Identity& wanted : {Identity{.run = "r2", .role = Role::kWorker, .name = "east"},
                                 Identity{.run = "r1", .role = Role::kWorker, .name = "west"},
                                 Identity{.run = "r1", .role = Role::kCoordinator, .name = ""}}) {
    const absl::Status status = CheckTlsFilesFor(files_, wanted).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("is for " + east_.Uri()));
    EXPECT_THAT(std::string(status.message()), HasSubstr(wanted.Uri()));
  }
}

}  // namespace
}  // namespace diloco
