#include "common/rpc/credentials.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

namespace diloco {
namespace {

namespace grpc_tls = grpc::experimental;

std::shared_ptr<grpc_tls::CertificateProviderInterface> Watch(const TlsFiles& files) {
  return std::make_shared<grpc_tls::FileWatcherCertificateProvider>(
      files.key, files.certificate, files.authority,
      static_cast<unsigned int>(absl::ToInt64Seconds(kCertificateRefresh)));
}

// The host name, and whose the certificate is.
class CoordinatorVerifier final : public grpc_tls::ExternalCertificateVerifier {
 public:
  explicit CoordinatorVerifier(std::string uri) : uri_(std::move(uri)) {}

  bool Verify(grpc_tls::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)> callback,
              grpc::Status* status) override {
    const std::vector<grpc::string_ref> uris = request->uri_names();
    if (uris.size() != 1 || uris.front() != grpc::string_ref(uri_)) {
      *status = {grpc::StatusCode::UNAUTHENTICATED, absl::StrFormat("the certificate shown is not that of %s", uri_)};
      return true;
    }
    return host_name_.Verify(request, std::move(callback), status);
  }
  void Cancel(grpc_tls::TlsCustomVerificationCheckRequest* request) override { host_name_.Cancel(request); }

 private:
  const std::string uri_;
  grpc_tls::HostNameCertificateVerifier host_name_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> TlsServerCredentials(const TlsFiles& files) {
  grpc_tls::TlsServerCredentialsOptions options(Watch(files));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc_tls::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> TlsChannelCredentials(const TlsFiles& files, const std::string& run) {
  grpc_tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(Watch(files));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(grpc_tls::ExternalCertificateVerifier::Create<CoordinatorVerifier>(
      Identity{.run = run, .role = Role::kCoordinator, .name = ""}.Uri()));
  options.set_check_call_host(false);  // The verifier has checked the host.
  return grpc_tls::TlsCredentials(options);
}

absl::StatusOr<Identity> PeerIdentity(const grpc::AuthContext& context) {
  const std::vector<grpc::string_ref> uris = context.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME);
  if (uris.size() != 1) {
    return absl::UnauthenticatedError(
        absl::StrFormat("the certificate has %d URIs among its alternative names; it needs exactly one, "
                        "spiffe://RUN/ROLE/NAME, which says whose it is",
                        uris.size()));
  }
  absl::StatusOr<Identity> identity = ParseIdentity(std::string_view(uris.front().data(), uris.front().size()));
  if (identity.ok()) return identity;
  return absl::UnauthenticatedError(identity.status().message());
}

}  // namespace diloco
