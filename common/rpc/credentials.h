// gRPC's credentials for mutual TLS: both ends show a certificate and check the other's, TLS 1.2 at least. The files
// are looked at again every kCertificateRefresh: new connections use what they hold then, open ones stay as they are.
#pragma once

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/tls/identity.h"
#include "common/tls/tls_files.h"

namespace diloco {

inline constexpr absl::Duration kCertificateRefresh = absl::Seconds(1);

// For the coordinator. The files have been checked.
std::shared_ptr<grpc::ServerCredentials> TlsServerCredentials(const TlsFiles& files);

// For one who connects to the coordinator of `run`: the host that it connects to has to be among the names of a
// certificate whose identity is that coordinator. The files have been checked.
std::shared_ptr<grpc::ChannelCredentials> TlsChannelCredentials(const TlsFiles& files, const std::string& run);

// Who called, as the certificate of the connection says. Errors, kUnauthenticated: it says it not, or not of
// ParseIdentity's form.
absl::StatusOr<Identity> PeerIdentity(const grpc::AuthContext& context);

}  // namespace diloco
