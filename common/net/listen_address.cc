#include "common/net/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"

namespace diloco {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<AddressList> Lookup(std::string_view what, const HostPort& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s %s: cannot resolve the host: %s; use an address of this machine", what, address.ToString(),
                        gai_strerror(error)));
  }
  return AddressList(found, &freeaddrinfo);
}

absl::Status BindError(std::string_view what, const HostPort& address, int error) {
  const std::string where = absl::StrFormat("%s %s", what, address.ToString());
  switch (error) {
    case EADDRINUSE:
      return absl::AlreadyExistsError(where + ": the port is in use; stop the process that has it or use another port");
    case EADDRNOTAVAIL:
      return absl::InvalidArgumentError(where + ": not an address of this machine; use one that is, or 0.0.0.0");
    case EACCES:
      return absl::PermissionDeniedError(where + ": not allowed to bind this port; use one from 1024 on");
    default:
      return absl::InternalError(where + ": cannot listen: " + std::strerror(error));
  }
}

}  // namespace

absl::StatusOr<HostPort> ResolveListenAddress(std::string_view what, const HostPort& address) {
  DILOCO_ASSIGN_OR_RETURN(const AddressList found, Lookup(what, address));
  char host[NI_MAXHOST];
  const int error =
      getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof(host), nullptr, 0, NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0) {
    return absl::InternalError(absl::StrFormat("%s %s: %s", what, address.ToString(), gai_strerror(error)));
  }
  return HostPort{.host = host, .port = address.port};
}

absl::Status ProbeListenAddress(std::string_view what, const HostPort& address) {
  DILOCO_ASSIGN_OR_RETURN(const AddressList found, Lookup(what, address));
  const int socket_fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) return BindError(what, address, errno);
  const absl::Cleanup close_socket = [socket_fd] { close(socket_fd); };
  // As the servers do: a port whose last connections linger in TIME_WAIT is free.
  const int yes = 1;
  if (setsockopt(socket_fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      bind(socket_fd, found->ai_addr, found->ai_addrlen) != 0 || listen(socket_fd, 1) != 0) {
    return BindError(what, address, errno);
  }
  return absl::OkStatus();
}

}  // namespace diloco
