// Certificates and keys in PEM: read, looked at, checked. Times are wall-clock: certificates have no others.
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/tls/identity.h"
#include "common/tls/openssl.h"

namespace diloco {

// The first certificate, and those behind it that lead to an authority.
struct CertificateChain {
  openssl::Certificate leaf;
  std::vector<openssl::Certificate> intermediates;
};

// Errors of these three, kInvalidArgument, with the path: no such file, more than kMaxPemBytes, or it holds something
// else.
inline constexpr size_t kMaxPemBytes = size_t{1} << 20;
absl::StatusOr<CertificateChain> ReadCertificateChain(const std::string& path);
absl::StatusOr<openssl::Key> ReadPrivateKey(const std::string& path);  // Without a passphrase.
absl::StatusOr<std::vector<openssl::Certificate>> ReadAuthorities(const std::string& path);

// What the one URI SAN says. Errors, kInvalidArgument: no URI, more than one, or not of ParseIdentity's form.
absl::StatusOr<Identity> IdentityOf(const X509* certificate);
// DNS names and IP addresses, as SANs.
std::vector<std::string> HostsOf(const X509* certificate);
absl::Time ExpiryOf(const X509* certificate);
// "2026-11-30 07:45:22 UTC".
std::string ShowTime(absl::Time time);

// The chain leads to one of the authorities, each certificate in it is valid now, and the leaf is for its role: the
// coordinator's for servers, any other for clients. `subject` and `authority` name what is checked and against what.
// Errors, kInvalidArgument, one sentence.
absl::Status CheckChain(const CertificateChain& chain, const std::vector<openssl::Certificate>& authorities, Role role,
                        const std::string& subject, const std::string& authority);
// The same sentence for OpenSSL's `error` (X509_V_ERR_...), found at `certificate`.
std::string ChainFault(int error, const X509* certificate, const std::string& authority);

}  // namespace diloco
