#include "common/tls/tls_files.h"

#include <openssl/err.h>

#include <vector>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "common/tls/certificate.h"

namespace diloco {

absl::Status TlsFiles::CheckComplete() const {
  if (certificate.empty() == key.empty() && key.empty() == authority.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s is missing; give all three of --tls-cert, --tls-key and --tls-ca, or none", certificate.empty() ? "--tls-cert"
                                                                                      : key.empty()       ? "--tls-key"
                                                                                                    : "--tls-ca"));
}

absl::StatusOr<OwnCertificate> CheckTlsFiles(const TlsFiles& files) {
  DILOCO_ASSIGN_OR_RETURN(const CertificateChain chain, ReadCertificateChain(files.certificate));
  DILOCO_ASSIGN_OR_RETURN(const openssl::Key key, ReadPrivateKey(files.key));
  DILOCO_ASSIGN_OR_RETURN(const std::vector<openssl::Certificate> authorities, ReadAuthorities(files.authority));
  const bool matches = X509_check_private_key(chain.leaf.get(), key.get()) == 1;
  ERR_clear_error();
  if (!matches) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: is not the key of the certificate in %s", files.key, files.certificate));
  }
  const absl::StatusOr<Identity> identity = IdentityOf(chain.leaf.get());
  if (!identity.ok()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: %s", files.certificate, std::string(identity.status().message())));
  }
  DILOCO_RETURN_IF_ERROR(CheckChain(chain, authorities, identity->role, files.certificate, files.authority));
  return OwnCertificate{.identity = *identity, .expires = ExpiryOf(chain.leaf.get())};
}

absl::StatusOr<OwnCertificate> CheckTlsFilesFor(const TlsFiles& files, const Identity& wanted) {
  DILOCO_ASSIGN_OR_RETURN(OwnCertificate own, CheckTlsFiles(files));
  const Identity& is = own.identity;
  if (is.role == wanted.role && (wanted.run.empty() || is.run == wanted.run) &&
      (wanted.name.empty() || is.name == wanted.name)) {
    return own;
  }
  Identity shown = wanted;
  if (shown.run.empty()) shown.run = "RUN";
  if (shown.name.empty()) shown.name = "NAME";
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: is for %s; this needs one for %s", files.certificate, is.Uri(), shown.Uri()));
}

}  // namespace diloco
