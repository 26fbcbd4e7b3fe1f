// Certificates that no `dilococtl certs` would make, of an authority that it made.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"

#include "common/tls/tls_files.h"

namespace diloco::testing {

struct CertificateSpec {
  std::vector<std::string> uris;
  std::string host = "127.0.0.1";                 // An address among the alternative names.
  absl::Duration valid_from = -absl::Minutes(1);  // From now.
  absl::Duration valid_until = absl::Hours(1);    // From now.
  std::string usage = "serverAuth,clientAuth";    // Extended key usage.
};

// Writes tls.crt, tls.key and ca.crt into `folder`, signed by the authority in `authority_folder`.
TlsFiles WriteCertificate(const std::string& authority_folder, const std::string& folder, const CertificateSpec& spec);

}  // namespace diloco::testing
