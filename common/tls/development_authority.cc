#include "common/tls/development_authority.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"

#include "common/base/atomic_file.h"
#include "common/base/check.h"
#include "common/base/name.h"
#include "common/base/status_macros.h"
#include "common/tls/certificate.h"

namespace diloco {
namespace {

constexpr char kAuthorityName[] = "diloco development authority";
constexpr std::string_view kScheme = "spiffe://";
constexpr size_t kSerialBytes = 16;
constexpr size_t kMaxHostBytes = 253;
constexpr int kVersion3 = 2;

std::string PathOf(const std::string& folder, const char* file) { return folder + "/" + file; }

openssl::Key NewKey() {
  openssl::Key key(EVP_EC_gen("P-256"));
  DILOCO_CHECK(key != nullptr);
  return key;
}

void AddExtension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  DILOCO_CHECK(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

void AddText(GENERAL_NAMES* names, int type, const std::string& text) {
  GENERAL_NAME* name = GENERAL_NAME_new();
  ASN1_IA5STRING* string = ASN1_IA5STRING_new();
  DILOCO_CHECK(name != nullptr && string != nullptr &&
               ASN1_STRING_set(string, text.data(), static_cast<int>(text.size())) == 1);
  GENERAL_NAME_set0_value(name, type, string);
  sk_GENERAL_NAME_push(names, name);
}

bool IsHostName(const std::string& host) {
  return !host.empty() && host.size() <= kMaxHostBytes && std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
  });
}

// nullptr: a name.
ASN1_OCTET_STRING* ToAddress(const std::string& host) {
  ASN1_OCTET_STRING* address = a2i_IPADDRESS(host.c_str());
  ERR_clear_error();
  return address;
}

void AddHost(GENERAL_NAMES* names, const std::string& host) {
  ASN1_OCTET_STRING* address = ToAddress(host);
  if (address == nullptr) {
    AddText(names, GEN_DNS, host);
    return;
  }
  GENERAL_NAME* name = GENERAL_NAME_new();
  DILOCO_CHECK(name != nullptr);
  GENERAL_NAME_set0_value(name, GEN_IPADD, address);
  sk_GENERAL_NAME_push(names, name);
}

void AddAlternativeNames(X509* certificate, const std::string& uri, const std::vector<std::string>& hosts) {
  const openssl::Names names(GENERAL_NAMES_new());
  DILOCO_CHECK(names != nullptr);
  AddText(names.get(), GEN_URI, uri);
  for (const std::string& host : hosts) AddHost(names.get(), host);
  DILOCO_CHECK(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) == 1);
}

// Everything but extensions and signature. `issuer`: nullptr, itself.
openssl::Certificate NewCertificate(const std::string& name, const X509* issuer, EVP_PKEY* key,
                                    absl::Duration validity) {
  openssl::Certificate certificate(X509_new());
  DILOCO_CHECK(certificate != nullptr && X509_set_version(certificate.get(), kVersion3) == 1);
  std::array<unsigned char, kSerialBytes> serial;
  DILOCO_CHECK(RAND_bytes(serial.data(), serial.size()) == 1);
  serial[0] &= 0x7f;  // Positive.
  BIGNUM* number = BN_bin2bn(serial.data(), serial.size(), nullptr);
  DILOCO_CHECK(BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate.get())) != nullptr);
  BN_free(number);
  const absl::Time now = absl::Now();
  ASN1_TIME_set(X509_getm_notBefore(certificate.get()), absl::ToTimeT(now - DevelopmentAuthority::kBackdated));
  ASN1_TIME_set(X509_getm_notAfter(certificate.get()), absl::ToTimeT(now + validity));
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  DILOCO_CHECK(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                          reinterpret_cast<const unsigned char*>(name.data()),
                                          static_cast<int>(name.size()), -1, 0) == 1);
  X509_set_issuer_name(certificate.get(), issuer == nullptr ? subject : X509_get_subject_name(issuer));
  DILOCO_CHECK(X509_set_pubkey(certificate.get(), key) == 1);
  return certificate;
}

std::string Contents(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

std::string ToPem(const X509* certificate) {
  const openssl::Bio bio(BIO_new(BIO_s_mem()));
  DILOCO_CHECK(bio != nullptr && PEM_write_bio_X509(bio.get(), certificate) == 1);
  return Contents(bio.get());
}

std::string ToPem(const EVP_PKEY* key) {
  const openssl::Bio bio(BIO_new(BIO_s_mem()));
  DILOCO_CHECK(bio != nullptr && PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
  return Contents(bio.get());
}

absl::Status WriteFile(const std::string& path, const std::string& text, AtomicFile::Access access) {
  DILOCO_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file, AtomicFile::Create(path, access));
  DILOCO_RETURN_IF_ERROR(file->Write(text));
  return file->Commit();
}

absl::Status MakeFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("%s: cannot be made: %s", folder, error.message()));
}

// The authority's own URI is that of the run: what precedes every identity in it.
absl::StatusOr<std::string> RunOf(const X509* authority, const std::string& path) {
  const openssl::Names names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(authority, NID_subject_alt_name, nullptr, nullptr)));
  const GENERAL_NAME* name = names == nullptr ? nullptr : sk_GENERAL_NAME_value(names.get(), 0);
  if (name != nullptr && name->type == GEN_URI) {
    const ASN1_STRING* uri = name->d.uniformResourceIdentifier;
    const std::string_view text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                                static_cast<size_t>(ASN1_STRING_length(uri)));
    const std::string_view run = text.substr(std::min(kScheme.size(), text.size()));
    if (text.substr(0, kScheme.size()) == kScheme && ValidateName("run", run).ok()) return std::string(run);
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: does not say of which run it is; only an authority that `dilococtl certs init` made does", path));
}

}  // namespace

absl::Status CheckHost(std::string_view what, const std::string& host) {
  ASN1_OCTET_STRING* address = ToAddress(host);
  const bool is_address = address != nullptr;
  ASN1_OCTET_STRING_free(address);
  if (is_address || IsHostName(host)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s \"%s\" is neither a host name nor an address; leave out any port", what,
                      absl::CHexEscape(host.substr(0, kMaxHostBytes))));
}

DevelopmentAuthority::DevelopmentAuthority(std::string folder, std::string run, openssl::Certificate certificate,
                                           openssl::Key key)
    : folder_(std::move(folder)), run_(std::move(run)), certificate_(std::move(certificate)), key_(std::move(key)) {}

absl::StatusOr<DevelopmentAuthority> DevelopmentAuthority::Create(const std::string& folder, const std::string& run) {
  DILOCO_RETURN_IF_ERROR(ValidateName("run", run));
  for (const char* file : {"ca.crt", "ca.key"}) {
    const std::string path = PathOf(folder, file);
    if (access(path.c_str(), F_OK) == 0) {
      return absl::AlreadyExistsError(
          absl::StrFormat("%s: there is an authority already; `dilococtl certs issue` adds to it", path));
    }
  }
  DILOCO_RETURN_IF_ERROR(MakeFolder(folder));
  openssl::Key key = NewKey();
  openssl::Certificate certificate = NewCertificate(kAuthorityName, nullptr, key.get(), kValidity);
  AddExtension(certificate.get(), certificate.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  AddExtension(certificate.get(), certificate.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  AddExtension(certificate.get(), certificate.get(), NID_subject_key_identifier, "hash");
  AddAlternativeNames(certificate.get(), std::string(kScheme) + run, {});
  DILOCO_CHECK(X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0);
  DILOCO_RETURN_IF_ERROR(WriteFile(PathOf(folder, "ca.key"), ToPem(key.get()), AtomicFile::Access::kOwner));
  DILOCO_RETURN_IF_ERROR(WriteFile(PathOf(folder, "ca.crt"), ToPem(certificate.get()), AtomicFile::Access::kAll));
  return DevelopmentAuthority(folder, run, std::move(certificate), std::move(key));
}

absl::StatusOr<DevelopmentAuthority> DevelopmentAuthority::Open(const std::string& folder) {
  const std::string certificate_path = PathOf(folder, "ca.crt");
  if (access(certificate_path.c_str(), F_OK) != 0) {
    return absl::NotFoundError(
        absl::StrFormat("%s: there is no authority; `dilococtl certs init` makes one", certificate_path));
  }
  DILOCO_ASSIGN_OR_RETURN(CertificateChain chain, ReadCertificateChain(certificate_path));
  const std::string key_path = PathOf(folder, "ca.key");
  DILOCO_ASSIGN_OR_RETURN(openssl::Key key, ReadPrivateKey(key_path));
  const bool matches = X509_check_private_key(chain.leaf.get(), key.get()) == 1;
  ERR_clear_error();
  if (!matches) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: is not the key of the certificate in %s", key_path, certificate_path));
  }
  DILOCO_ASSIGN_OR_RETURN(std::string run, RunOf(chain.leaf.get(), certificate_path));
  return DevelopmentAuthority(folder, std::move(run), std::move(chain.leaf), std::move(key));
}

TlsFiles DevelopmentAuthority::FilesOf(const Identity& identity) const {
  std::string folder = PathOf(folder_, RoleName(identity.role));
  if (identity.role == Role::kWorker) folder += "-" + identity.name;
  return {.certificate = folder + "/tls.crt", .key = folder + "/tls.key", .authority = folder + "/ca.crt"};
}

absl::Status DevelopmentAuthority::Issue(const Identity& identity, const std::vector<std::string>& hosts,
                                         absl::Duration validity) const {
  const bool serves = identity.role == Role::kCoordinator;
  const openssl::Key key = NewKey();
  const openssl::Certificate certificate =
      NewCertificate(serves ? RoleName(identity.role) : identity.name, certificate_.get(), key.get(), validity);
  AddExtension(certificate.get(), certificate_.get(), NID_basic_constraints, "critical,CA:FALSE");
  AddExtension(certificate.get(), certificate_.get(), NID_key_usage, "critical,digitalSignature");
  AddExtension(certificate.get(), certificate_.get(), NID_ext_key_usage, serves ? "serverAuth" : "clientAuth");
  AddExtension(certificate.get(), certificate_.get(), NID_authority_key_identifier, "keyid");
  AddAlternativeNames(certificate.get(), identity.Uri(), hosts);
  DILOCO_CHECK(X509_sign(certificate.get(), key_.get(), EVP_sha256()) > 0);
  const TlsFiles files = FilesOf(identity);
  DILOCO_RETURN_IF_ERROR(MakeFolder(std::filesystem::path(files.key).parent_path().string()));
  DILOCO_RETURN_IF_ERROR(WriteFile(files.key, ToPem(key.get()), AtomicFile::Access::kOwner));
  DILOCO_RETURN_IF_ERROR(WriteFile(files.certificate, ToPem(certificate.get()), AtomicFile::Access::kAll));
  return WriteFile(files.authority, ToPem(certificate_.get()), AtomicFile::Access::kAll);
}

absl::StatusOr<std::vector<Identity>> DevelopmentAuthority::Issued() const {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string path = PathOf(PathOf(folder_, entry.path().filename().c_str()), "tls.crt");
    if (access(path.c_str(), F_OK) == 0) paths.push_back(path);
  }
  if (error) return absl::InvalidArgumentError(absl::StrFormat("%s: cannot be read: %s", folder_, error.message()));
  std::sort(paths.begin(), paths.end());
  std::vector<Identity> issued;
  for (const std::string& path : paths) {
    DILOCO_ASSIGN_OR_RETURN(const CertificateChain chain, ReadCertificateChain(path));
    absl::StatusOr<Identity> identity = IdentityOf(chain.leaf.get());
    if (!identity.ok() || identity->run != run_ || FilesOf(*identity).certificate != path) {
      return absl::InvalidArgumentError(absl::StrFormat("%s: is not of this authority", path));
    }
    issued.push_back(*std::move(identity));
  }
  return issued;
}

absl::Status DevelopmentAuthority::Renew(const Identity& identity, absl::Duration validity) const {
  DILOCO_ASSIGN_OR_RETURN(const CertificateChain chain, ReadCertificateChain(FilesOf(identity).certificate));
  return Issue(identity, HostsOf(chain.leaf.get()), validity);
}

}  // namespace diloco
