// The way to a coordinator: its address, and plaintext or mutual TLS.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/tls/tls_files.h"

namespace grpc {
class Channel;
class ChannelCredentials;
}  // namespace grpc

namespace diloco {

class CoordinatorLink {
 public:
  // `address`: HOST:PORT. With `tls`, the coordinator must be that of the run that the certificate names; without,
  // plaintext. Errors: as CheckTlsFiles.
  static absl::StatusOr<CoordinatorLink> Open(std::string address, TlsFiles tls);

  const std::string& address() const { return address_; }

  // A connection of its own, see MakeChannel.
  std::shared_ptr<grpc::Channel> NewChannel() const;

  // Why no connection comes about: as DiagnoseConnection, blocking at most kDiagnosisDeadline. kUnavailable: it may
  // later.
  static constexpr absl::Duration kDiagnosisDeadline = absl::Seconds(5);
  absl::Status Diagnose() const;

 private:
  CoordinatorLink(std::string address, TlsFiles tls, std::shared_ptr<grpc::ChannelCredentials> credentials);

  std::string address_;
  TlsFiles tls_;
  std::shared_ptr<grpc::ChannelCredentials> credentials_;
};

}  // namespace diloco
