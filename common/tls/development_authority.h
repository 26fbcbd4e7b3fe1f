// A certificate authority in a folder, for a run that has none of its own: `dilococtl certs`. It makes ECDSA P-256 keys
// and certificates and writes
//
//   FOLDER/ca.crt, ca.key                                       the authority; ca.key stays where certificates are made
//   FOLDER/{coordinator,worker-NAME,admin,viewer}/{tls.crt,tls.key,ca.crt}    what each party needs
//
// Keys are readable by their owner alone. Each file is replaced whole; of a pair the key comes first.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/tls/identity.h"
#include "common/tls/openssl.h"
#include "common/tls/tls_files.h"

namespace diloco {

// OK for a host name or an address without a port. Errors, kInvalidArgument, which name `what`.
absl::Status CheckHost(std::string_view what, const std::string& host);

class DevelopmentAuthority {
 public:
  // How long the authority's own certificate is valid.
  static constexpr absl::Duration kValidity = absl::Hours(24 * 3650);
  // Certificates are valid from this long ago, for machines whose clocks are behind.
  static constexpr absl::Duration kBackdated = absl::Minutes(5);

  // Makes one, and the folder. Errors: kAlreadyExists, there is one in the folder; those of the files.
  static absl::StatusOr<DevelopmentAuthority> Create(const std::string& folder, const std::string& run);
  // Errors: kNotFound, there is none in the folder; kInvalidArgument, its files are not those of one.
  static absl::StatusOr<DevelopmentAuthority> Open(const std::string& folder);

  const std::string& run() const { return run_; }

  // The files of `identity`, whether they exist or not.
  TlsFiles FilesOf(const Identity& identity) const;

  // Makes a key and a certificate for `identity`, in the place of those before. `hosts`: names and addresses under
  // which it is connected to, see CheckHost; only a coordinator has any. `validity`: from now.
  // Errors: those of the files.
  absl::Status Issue(const Identity& identity, const std::vector<std::string>& hosts, absl::Duration validity) const;

  // Who has a certificate in the folder, in the order of their names. Errors: those of the files.
  absl::StatusOr<std::vector<Identity>> Issued() const;
  // Issue for who has one, with the hosts that it has now.
  absl::Status Renew(const Identity& identity, absl::Duration validity) const;

 private:
  DevelopmentAuthority(std::string folder, std::string run, openssl::Certificate certificate, openssl::Key key);

  std::string folder_;
  std::string run_;
  openssl::Certificate certificate_;
  openssl::Key key_;
};

}  // namespace diloco
