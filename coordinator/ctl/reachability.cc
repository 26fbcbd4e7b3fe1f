#include "coordinator/ctl/reachability.h"

#include <fcntl.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"

#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status.h"

namespace diloco {
namespace {

constexpr char kHealthMethod[] = "/grpc.health.v1.Health/Check";
// The answer's one field, `status`, with the value SERVING; the question, whose field is empty, has no bytes.
constexpr char kServing[] = "\x08\x01";

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<Addresses> Resolve(const HostPort& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error == 0) return Addresses(found, &freeaddrinfo);
  return absl::NotFoundError(absl::StrFormat("\"%s\": %s", address.host, gai_strerror(error)));
}

absl::Status ConnectTo(const addrinfo& target, absl::Duration timeout) {
  const int socket = ::socket(target.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return absl::ErrnoToStatus(errno, "socket");
  const absl::Cleanup close_socket = [socket] { close(socket); };
  if (connect(socket, target.ai_addr, target.ai_addrlen) == 0) return absl::OkStatus();
  if (errno != EINPROGRESS) return absl::UnavailableError(std::strerror(errno));
  pollfd wait{.fd = socket, .events = POLLOUT, .revents = 0};
  if (poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) <= 0) {
    return absl::UnavailableError(absl::StrFormat("no answer within %s", absl::FormatDuration(timeout)));
  }
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? absl::OkStatus() : absl::UnavailableError(std::strerror(error));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ResolveHost(const HostPort& address) {
  DILOCO_ASSIGN_OR_RETURN(const Addresses found, Resolve(address));
  std::vector<std::string> numeric;
  for (const addrinfo* entry = found.get(); entry != nullptr; entry = entry->ai_next) {
    char host[NI_MAXHOST] = {};
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) == 0 &&
        std::find(numeric.begin(), numeric.end(), host) == numeric.end()) {
      numeric.emplace_back(host);
    }
  }
  return numeric;
}

absl::StatusOr<absl::Duration> ConnectTcp(const HostPort& address, absl::Duration timeout) {
  DILOCO_ASSIGN_OR_RETURN(const Addresses found, Resolve(address));
  const SteadyClock clock;
  absl::Status last = absl::NotFoundError("no address");
  for (const addrinfo* entry = found.get(); entry != nullptr; entry = entry->ai_next) {
    const MonotonicTime start = clock.Now();
    last = ConnectTo(*entry, timeout);
    if (last.ok()) return clock.Now() - start;
  }
  return last;
}

absl::Status CheckHealth(const std::shared_ptr<grpc::Channel>& channel, absl::Duration timeout) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(timeout));
  const grpc::Slice nothing;
  const grpc::ByteBuffer request(&nothing, 1);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> answered;
  grpc::GenericStub stub(channel);
  stub.UnaryCall(&context, kHealthMethod, {}, &request, &response,
                 [&answered](grpc::Status status) { answered.set_value(std::move(status)); });
  const absl::Status status = FromGrpcStatus(answered.get_future().get());
  if (!status.ok()) return status;
  grpc::Slice slice;
  if (response.DumpToSingleSlice(&slice).ok() && std::string(slice.begin(), slice.end()) == kServing) {
    return absl::OkStatus();
  }
  return absl::UnavailableError("the server says that it is not serving");
}

}  // namespace diloco
