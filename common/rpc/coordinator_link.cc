#include "common/rpc/coordinator_link.h"

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>

#include <utility>

#include "common/base/status_macros.h"
#include "common/net/host_port.h"
#include "common/rpc/channel.h"
#include "common/rpc/credentials.h"
#include "common/tls/diagnosis.h"

namespace diloco {

absl::StatusOr<CoordinatorLink> CoordinatorLink::Open(std::string address, TlsFiles tls) {
  if (!tls.given()) return CoordinatorLink(std::move(address), {}, grpc::InsecureChannelCredentials());
  DILOCO_ASSIGN_OR_RETURN(const OwnCertificate own, CheckTlsFiles(tls));
  std::shared_ptr<grpc::ChannelCredentials> credentials = TlsChannelCredentials(tls, own.identity.run);
  return CoordinatorLink(std::move(address), std::move(tls), std::move(credentials));
}

CoordinatorLink::CoordinatorLink(std::string address, TlsFiles tls,
                                 std::shared_ptr<grpc::ChannelCredentials> credentials)
    : address_(std::move(address)), tls_(std::move(tls)), credentials_(std::move(credentials)) {}

std::shared_ptr<grpc::Channel> CoordinatorLink::NewChannel() const { return MakeChannel(address_, credentials_); }

absl::Status CoordinatorLink::Diagnose() const {
  DILOCO_ASSIGN_OR_RETURN(const HostPort address, ParseHostPort("coordinator", address_, PortZero::kRefuse));
  return DiagnoseConnection(address, tls_, kDiagnosisDeadline);
}

}  // namespace diloco
