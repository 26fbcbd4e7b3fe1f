#include "common/tls/diagnosis.h"

#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/tls/certificate.h"

namespace diloco {
namespace {

// HTTP/2, as gRPC asks for.
constexpr unsigned char kProtocols[] = {2, 'h', '2'};

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// OpenSSL writes to sockets without saying that no signal is wanted when the peer is gone.
class BrokenPipesIgnored {
 public:
  BrokenPipesIgnored() {
    sigemptyset(&broken_pipe_);
    sigaddset(&broken_pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken_pipe_, &before_);
  }
  ~BrokenPipesIgnored() {
    const timespec now = {};
    while (sigtimedwait(&broken_pipe_, nullptr, &now) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  BrokenPipesIgnored(const BrokenPipesIgnored&) = delete;
  BrokenPipesIgnored& operator=(const BrokenPipesIgnored&) = delete;

 private:
  sigset_t broken_pipe_;
  sigset_t before_;
};

class Deadline {
 public:
  explicit Deadline(absl::Duration duration) : end_(clock_.Now() + duration) {}
  // Waits for `events` on `fd`. False: the time is over.
  bool Await(int fd, int16_t events) const {
    while (true) {
      const int64_t left = std::max<int64_t>(0, absl::ToInt64Milliseconds(end_ - clock_.Now()));
      pollfd wait = {.fd = fd, .events = events, .revents = 0};
      const int ready = poll(&wait, 1, static_cast<int>(left));
      if (ready > 0) return true;
      if (ready == 0 || errno != EINTR) return false;
    }
  }

 private:
  const SteadyClock clock_;
  const MonotonicTime end_;
};

absl::Status Unavailable(const HostPort& address, const std::string& what) {
  return absl::UnavailableError(absl::StrFormat("coordinator %s: %s", address.ToString(), what));
}
absl::Status Unauthenticated(const HostPort& address, const std::string& what) {
  return absl::UnauthenticatedError(absl::StrFormat("coordinator %s: %s", address.ToString(), what));
}

// A connection to the first of the host's addresses that takes one.
absl::StatusOr<std::unique_ptr<Socket>> Connect(const HostPort& address, const Deadline& deadline) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) return Unavailable(address, absl::StrFormat("cannot resolve the host: %s", gai_strerror(error)));
  const absl::Cleanup free_found = [found] { freeaddrinfo(found); };
  std::string last = "no address";
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int fd = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) continue;
    auto connected = std::make_unique<Socket>(fd);
    if (connect(fd, one->ai_addr, one->ai_addrlen) == 0) return connected;
    if (errno == EINPROGRESS && !deadline.Await(fd, POLLOUT)) return Unavailable(address, "no answer");
    int failure = errno;
    socklen_t size = sizeof(failure);
    if (errno == EINPROGRESS) getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size);
    if (failure == 0) return connected;
    last = std::strerror(failure);
  }
  return Unavailable(address, last);
}

// How a step of OpenSSL's ended.
enum class Step { kDone, kClosed, kTimedOut, kFailed };

// Does `step` (SSL_connect, SSL_read) until it is over.
template <typename F>
Step Run(SSL* connection, const Deadline& deadline, const F& step) {
  while (true) {
    ERR_clear_error();
    const int result = step(connection);
    if (result > 0) return Step::kDone;
    const int error = SSL_get_error(connection, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
      const int16_t events = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
      if (!deadline.Await(SSL_get_fd(connection), events)) return Step::kTimedOut;
      continue;
    }
    const bool unexpected_end = ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    return error == SSL_ERROR_SSL && !unexpected_end ? Step::kFailed : Step::kClosed;
  }
}

std::string ReasonText() {
  const char* text = ERR_reason_error_string(ERR_peek_error());
  return text == nullptr ? "no reason given" : text;
}

// What the other end objected to, if the failure of a step is an alert of its; else empty.
std::string AlertText() {
  const int reason = ERR_GET_REASON(ERR_peek_error());
  switch (reason) {
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      return "it is signed by another authority than the coordinator's --tls-ca";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return "it has expired by the coordinator's clock";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
      return "it is revoked";
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
      return "its version of TLS is too old";
    default:
      return reason >= SSL_AD_REASON_OFFSET ? ReasonText() : "";
  }
}

absl::Status Refused(const HostPort& address, const TlsFiles& tls, const std::string& why) {
  return Unauthenticated(address, absl::StrFormat("it refused the certificate in %s: %s", tls.certificate, why));
}

absl::Status PlaintextSpoken(const HostPort& address) {
  return absl::InvalidArgumentError(
      absl::StrFormat("coordinator %s: it speaks plaintext; leave out --tls-cert, --tls-key and --tls-ca, or start it "
                      "with them",
                      address.ToString()));
}

bool NamesHost(X509* certificate, const std::string& host) {
  return X509_check_ip_asc(certificate, host.c_str(), 0) == 1 ||
         X509_check_host(certificate, host.data(), host.size(), 0, nullptr) == 1;
}

// After a handshake in which the chain was found good.
absl::Status CheckCoordinator(const HostPort& address, X509* certificate, const Identity& wanted) {
  const absl::StatusOr<Identity> identity = IdentityOf(certificate);
  if (!identity.ok()) return Unauthenticated(address, "its certificate: " + std::string(identity.status().message()));
  if (*identity != wanted) {
    return Unauthenticated(address,
                           absl::StrFormat("its certificate is for %s; this needs %s", identity->Uri(), wanted.Uri()));
  }
  if (!NamesHost(certificate, address.host)) {
    const std::vector<std::string> hosts = HostsOf(certificate);
    return Unauthenticated(
        address, absl::StrFormat("its certificate is for the host %s; connect to that name, or have this one added",
                                 hosts.empty() ? "\"\"" : hosts.front()));
  }
  return absl::OkStatus();
}

// What a coordinator that stops looks like, and, where its TLS sends no alert, one that refuses our certificate.
constexpr char kClosedUnheard[] = "it closed the connection after the TLS handshake";

// With TLS 1.3 our side of the handshake is over before the coordinator has looked at our certificate: its first bytes
// of HTTP/2, or an alert in their place, say what it thinks of it.
absl::Status AwaitVerdict(const HostPort& address, SSL* connection, const Deadline& deadline, const TlsFiles& tls) {
  char byte = 0;
  switch (Run(connection, deadline, [&byte](SSL* ssl) { return SSL_read(ssl, &byte, 1); })) {
    case Step::kDone:
      return absl::OkStatus();
    case Step::kTimedOut:
      return Unavailable(address, "no answer after the TLS handshake");
    case Step::kClosed:
      return Unavailable(address, kClosedUnheard);
    case Step::kFailed:
      break;
  }
  const std::string alert = AlertText();
  return alert.empty() ? Unavailable(address, "the connection broke after the TLS handshake")
                       : Refused(address, tls, alert);
}

// What is wrong with the coordinator's chain, found in the handshake.
struct ChainCheck {
  const TlsFiles* tls = nullptr;
  std::string fault;  // Empty: nothing.
};

int VerifyChain(X509_STORE_CTX* context, void* argument) {
  const int good = X509_verify_cert(context);
  if (good != 1) {
    auto* check = static_cast<ChainCheck*>(argument);
    const X509* found = X509_STORE_CTX_get_current_cert(context);
    check->fault = ChainFault(X509_STORE_CTX_get_error(context),
                              found == nullptr ? X509_STORE_CTX_get0_cert(context) : found, check->tls->authority);
  }
  return good;
}

absl::Status HandshakeFault(const HostPort& address, Step ended, const ChainCheck& check) {
  if (!check.fault.empty()) return Unauthenticated(address, "its certificate " + check.fault);
  if (ended == Step::kTimedOut) return Unavailable(address, "no answer to the TLS handshake");
  if (ended == Step::kClosed) return Unavailable(address, "it closed the connection in the TLS handshake");
  if (const std::string alert = AlertText(); !alert.empty()) return Refused(address, *check.tls, alert);
  if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_WRONG_VERSION_NUMBER) return PlaintextSpoken(address);
  return Unavailable(address, absl::StrFormat("the TLS handshake failed: %s", ReasonText()));
}

absl::Status DiagnoseTls(const HostPort& address, const TlsFiles& tls, const Deadline& deadline) {
  DILOCO_ASSIGN_OR_RETURN(const OwnCertificate own, CheckTlsFiles(tls));
  const openssl::Context context(SSL_CTX_new(TLS_client_method()));
  DILOCO_CHECK(context != nullptr);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  ChainCheck check = {.tls = &tls, .fault = ""};
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(context.get(), &VerifyChain, &check);
  SSL_CTX_set_alpn_protos(context.get(), kProtocols, sizeof(kProtocols));
  if (SSL_CTX_use_certificate_chain_file(context.get(), tls.certificate.c_str()) != 1 ||
      SSL_CTX_use_PrivateKey_file(context.get(), tls.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_load_verify_locations(context.get(), tls.authority.c_str(), nullptr) != 1) {
    return Unavailable(address, "the certificate files changed while they were read");
  }
  DILOCO_ASSIGN_OR_RETURN(const std::unique_ptr<Socket> socket, Connect(address, deadline));
  const openssl::Connection connection(SSL_new(context.get()));
  DILOCO_CHECK(connection != nullptr && SSL_set_fd(connection.get(), socket->fd()) == 1);
  SSL_set_tlsext_host_name(connection.get(), address.host.c_str());
  const Step ended = Run(connection.get(), deadline, &SSL_connect);
  if (ended != Step::kDone) return HandshakeFault(address, ended, check);
  const openssl::Certificate shown(SSL_get1_peer_certificate(connection.get()));
  DILOCO_RETURN_IF_ERROR(
      CheckCoordinator(address, shown.get(), {.run = own.identity.run, .role = Role::kCoordinator, .name = ""}));
  return AwaitVerdict(address, connection.get(), deadline, tls);
}

// Whether a server that wants TLS is there.
absl::Status DiagnosePlaintext(const HostPort& address, const Deadline& deadline) {
  DILOCO_ASSIGN_OR_RETURN(const std::unique_ptr<Socket> socket, Connect(address, deadline));
  const openssl::Context context(SSL_CTX_new(TLS_client_method()));
  DILOCO_CHECK(context != nullptr);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  SSL_CTX_set_alpn_protos(context.get(), kProtocols, sizeof(kProtocols));
  const openssl::Connection connection(SSL_new(context.get()));
  DILOCO_CHECK(connection != nullptr && SSL_set_fd(connection.get(), socket->fd()) == 1);
  const Step ended = Run(connection.get(), deadline, &SSL_connect);
  // An alert is an answer in TLS as well.
  if (ended == Step::kDone || (ended == Step::kFailed && !AlertText().empty())) {
    return absl::InvalidArgumentError(
        absl::StrFormat("coordinator %s: it wants TLS; give --tls-cert, --tls-key and --tls-ca", address.ToString()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DiagnoseConnection(const HostPort& address, const TlsFiles& tls, absl::Duration deadline) {
  const BrokenPipesIgnored ignored;
  const absl::Cleanup clear = [] { ERR_clear_error(); };
  const Deadline end(deadline);
  if (!tls.given()) return DiagnosePlaintext(address, end);
  const auto closed = [](const absl::Status& fault) { return absl::EndsWith(fault.message(), kClosedUnheard); };
  absl::Status fault = DiagnoseTls(address, tls, end);
  if (closed(fault)) fault = DiagnoseTls(address, tls, end);  // One that stops does not take a second connection.
  if (!closed(fault)) return fault;
  return Refused(address, tls, "it is expired, or signed by another authority than the coordinator's --tls-ca");
}

}  // namespace diloco
