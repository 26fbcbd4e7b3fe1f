#include "common/tls/certificate.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace diloco {
namespace {

absl::Status Fault(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrFormat("%s: %s", path, what));
}

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Fault(path, absl::StrFormat("cannot be read: %s", std::strerror(errno)));
  std::string text(kMaxPemBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.gcount() == 0 && !file.eof())) return Fault(path, "cannot be read; is it a file?");
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxPemBytes) return Fault(path, absl::StrFormat("has more than %d bytes", kMaxPemBytes));
  return text;
}

openssl::Bio Reader(const std::string& text) {
  openssl::Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  DILOCO_CHECK(bio != nullptr);
  return bio;
}

// Without it OpenSSL would ask at the terminal.
int NoPassphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

absl::StatusOr<std::vector<openssl::Certificate>> ReadCertificates(const std::string& path) {
  DILOCO_ASSIGN_OR_RETURN(const std::string text, ReadPem(path));
  const absl::Cleanup clear = [] { ERR_clear_error(); };
  const openssl::Bio bio = Reader(text);
  std::vector<openssl::Certificate> certificates;
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) certificates.emplace_back(next);
  if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) return Fault(path, "holds a damaged certificate");
  if (certificates.empty()) return Fault(path, "holds no certificate; use PEM (-----BEGIN CERTIFICATE-----)");
  return certificates;
}

openssl::Names AlternativeNames(const X509* certificate) {
  return openssl::Names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
}

std::string TextOf(const ASN1_STRING* string) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(string)),
          static_cast<size_t>(ASN1_STRING_length(string))};
}

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm fields = {};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return absl::InfinitePast();
  return absl::FromTM(fields, absl::UTCTimeZone());
}

std::string AddressOf(const ASN1_STRING* bytes) {
  char text[INET6_ADDRSTRLEN] = {};
  const int family = ASN1_STRING_length(bytes) == 4 ? AF_INET : AF_INET6;
  if (family == AF_INET6 && ASN1_STRING_length(bytes) != 16) return "";
  return inet_ntop(family, ASN1_STRING_get0_data(bytes), text, sizeof(text)) == nullptr ? "" : text;
}

}  // namespace

absl::StatusOr<CertificateChain> ReadCertificateChain(const std::string& path) {
  DILOCO_ASSIGN_OR_RETURN(std::vector<openssl::Certificate> certificates, ReadCertificates(path));
  CertificateChain chain;
  chain.leaf = std::move(certificates.front());
  certificates.erase(certificates.begin());
  chain.intermediates = std::move(certificates);
  return chain;
}

absl::StatusOr<openssl::Key> ReadPrivateKey(const std::string& path) {
  DILOCO_ASSIGN_OR_RETURN(const std::string text, ReadPem(path));
  const absl::Cleanup clear = [] { ERR_clear_error(); };
  bool asked = false;
  openssl::Key key(PEM_read_bio_PrivateKey(Reader(text).get(), nullptr, &NoPassphrase, &asked));
  if (key != nullptr) return key;
  return Fault(path, asked ? "is encrypted; use a key without a passphrase"
                           : "holds no private key; use PEM (-----BEGIN PRIVATE KEY-----)");
}

absl::StatusOr<std::vector<openssl::Certificate>> ReadAuthorities(const std::string& path) {
  return ReadCertificates(path);
}

absl::StatusOr<Identity> IdentityOf(const X509* certificate) {
  const openssl::Names names = AlternativeNames(certificate);
  std::vector<std::string> uris;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_URI) uris.push_back(TextOf(name->d.uniformResourceIdentifier));
  }
  if (uris.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s; it needs exactly one, spiffe://RUN/ROLE/NAME, which says whose it is",
                        uris.empty() ? "the certificate has no URI among its alternative names"
                                     : "the certificate has more than one URI among its alternative names"));
  }
  return ParseIdentity(uris.front());
}

std::vector<std::string> HostsOf(const X509* certificate) {
  const openssl::Names names = AlternativeNames(certificate);
  std::vector<std::string> hosts;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS) hosts.push_back(TextOf(name->d.dNSName));
    if (name->type == GEN_IPADD) hosts.push_back(AddressOf(name->d.iPAddress));
  }
  return hosts;
}

absl::Time ExpiryOf(const X509* certificate) { return TimeOf(X509_get0_notAfter(certificate)); }

std::string ShowTime(absl::Time time) { return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone()); }

std::string ChainFault(int error, const X509* certificate, const std::string& authority) {
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return absl::StrFormat("expired on %s", ShowTime(ExpiryOf(certificate)));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::StrFormat("is not valid before %s", ShowTime(TimeOf(X509_get0_notBefore(certificate))));
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return absl::StrFormat("is signed by another authority than %s", authority);
    case X509_V_ERR_INVALID_PURPOSE:
      return "is not for this end of a TLS connection (its extended key usage says so)";
    default:
      return absl::StrFormat("is not accepted: %s", X509_verify_cert_error_string(error));
  }
}

absl::Status CheckChain(const CertificateChain& chain, const std::vector<openssl::Certificate>& authorities, Role role,
                        const std::string& subject, const std::string& authority) {
  const absl::Cleanup clear = [] { ERR_clear_error(); };
  const openssl::Store store(X509_STORE_new());
  const openssl::StoreContext context(X509_STORE_CTX_new());
  STACK_OF(X509)* untrusted = sk_X509_new_null();
  const absl::Cleanup free_stack = [untrusted] { sk_X509_free(untrusted); };
  DILOCO_CHECK(store != nullptr && context != nullptr && untrusted != nullptr);
  for (const openssl::Certificate& trusted : authorities) X509_STORE_add_cert(store.get(), trusted.get());
  for (const openssl::Certificate& between : chain.intermediates) sk_X509_push(untrusted, between.get());
  DILOCO_CHECK(X509_STORE_CTX_init(context.get(), store.get(), chain.leaf.get(), untrusted) == 1);
  X509_STORE_CTX_set_purpose(context.get(),
                             role == Role::kCoordinator ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT);
  if (X509_verify_cert(context.get()) == 1) return absl::OkStatus();
  const X509* found = X509_STORE_CTX_get_current_cert(context.get());
  return Fault(subject, ChainFault(X509_STORE_CTX_get_error(context.get()), found == nullptr ? chain.leaf.get() : found,
                                   authority));
}

}  // namespace diloco
