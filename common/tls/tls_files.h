// The three files that a program shows and checks certificates with, as flags name them.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/tls/identity.h"

namespace diloco {

struct TlsFiles {
  std::string certificate;  // --tls-cert: its own, with those that lead to the authority behind it.
  std::string key;          // --tls-key
  std::string authority;    // --tls-ca: whose certificates it accepts.

  bool given() const { return !certificate.empty(); }
  // Errors, kInvalidArgument: some of the three are given and others not.
  absl::Status CheckComplete() const;
};

struct OwnCertificate {
  Identity identity;
  absl::Time expires;
};

// Reads and checks them as the peers will: the key belongs to the certificate, which leads to the authority, is valid
// now, and says in exactly one URI whose it is. Errors, kInvalidArgument: one sentence with the file's name.
absl::StatusOr<OwnCertificate> CheckTlsFiles(const TlsFiles& files);

// CheckTlsFiles, for a program that is `wanted.role` of `wanted.run`, by that name; an empty run or name is any.
// Errors: also that the certificate is another's.
absl::StatusOr<OwnCertificate> CheckTlsFilesFor(const TlsFiles& files, const Identity& wanted);

}  // namespace diloco
