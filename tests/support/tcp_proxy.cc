#include "tests/support/tcp_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>

#include "absl/strings/str_format.h"

#include "common/base/check.h"

namespace diloco::testing {
namespace {

constexpr size_t kBufferBytes = 64 << 10;
constexpr int kRatePollMilliseconds = 5;
// Bytes that a limited link may make up for, in seconds at its rate: when this thread ran late, and when nothing came.
constexpr double kLateSeconds = 0.1;
constexpr double kIdleSeconds = 1e-3 * kRatePollMilliseconds;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void Prepare(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  fcntl(socket, F_SETFL, O_NONBLOCK);
}

}  // namespace

// One direction of a connection.
struct TcpProxy::Pipe {
  int from = -1;
  int to = -1;
  bool control = false;
  std::atomic<uint64_t>* counter = nullptr;
  std::string buffered;  // Read (and granted), not yet written.
  double tokens = 0;     // Of the rate limit.
  std::chrono::steady_clock::time_point refilled = std::chrono::steady_clock::now();
  bool ended = false;
};

struct TcpProxy::Connection {
  int client = -1;
  int server = -1;
  Pipe up;
  Pipe down;
  ~Connection() {
    close(client);
    close(server);
  }
};

TcpProxy::TcpProxy(int target_port) : target_port_(target_port) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address = Loopback(0);
  DILOCO_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  DILOCO_CHECK(listen(listener_, 64) == 0);
  socklen_t length = sizeof(address);
  DILOCO_CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  port_ = ntohs(address.sin_port);
  DILOCO_CHECK(pipe2(wake_, O_CLOEXEC | O_NONBLOCK) == 0);
  thread_ = std::thread([this] { Loop(); });
}

TcpProxy::~TcpProxy() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
  }
  Wake();
  thread_.join();
  live_.clear();
  close(listener_);
  close(wake_[0]);
  close(wake_[1]);
}

std::string TcpProxy::address() const { return absl::StrFormat("127.0.0.1:%d", port_); }

void TcpProxy::Hold() {
  MutexLock lock(&mutex_);
  held_ = true;
  granted_ = 0;
}

void TcpProxy::Grant(uint64_t bytes) {
  {
    MutexLock lock(&mutex_);
    granted_ += bytes;
  }
  Wake();
}

uint64_t TcpProxy::granted() const {
  MutexLock lock(&mutex_);
  return granted_;
}

void TcpProxy::Open() {
  {
    MutexLock lock(&mutex_);
    held_ = false;
  }
  Wake();
}

void TcpProxy::SetRate(uint64_t bytes_per_second) {
  {
    MutexLock lock(&mutex_);
    rate_ = bytes_per_second;
  }
  Wake();
}

void TcpProxy::Silence() {
  {
    MutexLock lock(&mutex_);
    silent_ = true;
  }
  Wake();
}

void TcpProxy::Speak() {
  {
    MutexLock lock(&mutex_);
    silent_ = false;
  }
  Wake();
}

void TcpProxy::Reset() {
  {
    MutexLock lock(&mutex_);
    reset_ = true;
  }
  Wake();
}

void TcpProxy::Wake() {
  const char byte = 0;
  // A full pipe wakes the thread as well.
  [[maybe_unused]] const ssize_t written = write(wake_[1], &byte, 1);
}

void TcpProxy::Accept() {
  const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(target_port_);
  if (connect(server, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    close(server);
    close(client);
    return;
  }
  Prepare(client);
  Prepare(server);
  auto connection = std::make_unique<Connection>();
  connection->client = client;
  connection->server = server;
  const bool control = connections_.fetch_add(1) == 0;
  connection->up.from = connection->down.to = client;
  connection->up.to = connection->down.from = server;
  connection->up.control = connection->down.control = control;
  if (!control) {
    connection->up.counter = &upstream_;
    connection->down.counter = &downstream_;
  }
  live_.push_back(std::move(connection));
}

uint64_t TcpProxy::Allowance(const Pipe& pipe) {
  if (pipe.control) return kBufferBytes;
  MutexLock lock(&mutex_);
  uint64_t allowance = kBufferBytes;
  if (held_) allowance = std::min(allowance, granted_);
  if (rate_ > 0) allowance = std::min(allowance, static_cast<uint64_t>(std::max(0.0, pipe.tokens)));
  return allowance;
}

void TcpProxy::TakeGrant(const Pipe& pipe, uint64_t bytes) {
  if (pipe.control) return;
  {
    MutexLock lock(&mutex_);
    if (held_) granted_ -= std::min(granted_, bytes);
  }
  if (on_forwarded_) on_forwarded_();
}

// Moves what it may; returns false when the connection is over.
bool TcpProxy::Forward(Pipe& pipe) {
  uint64_t rate = 0;
  {
    MutexLock lock(&mutex_);
    rate = rate_;
  }
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - pipe.refilled).count();
  pipe.refilled = now;
  pipe.tokens = std::min(pipe.tokens + seconds * static_cast<double>(rate), static_cast<double>(rate) * kLateSeconds);
  if (pipe.buffered.empty() && !pipe.ended) {
    const uint64_t allowance = Allowance(pipe);
    if (allowance > 0) {
      char buffer[kBufferBytes];
      const ssize_t count = read(pipe.from, buffer, allowance);
      if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return false;
      if (count > 0) {
        const auto bytes = static_cast<uint64_t>(count);
        pipe.buffered.assign(buffer, bytes);
        pipe.tokens -= static_cast<double>(bytes);
        if (pipe.counter != nullptr) *pipe.counter += bytes;
        TakeGrant(pipe, bytes);
      } else {
        pipe.tokens = std::min(pipe.tokens, static_cast<double>(rate) * kIdleSeconds);
      }
    }
  }
  if (!pipe.buffered.empty()) {
    const ssize_t count = send(pipe.to, pipe.buffered.data(), pipe.buffered.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (count > 0) pipe.buffered.erase(0, static_cast<size_t>(count));
  }
  return true;
}

void TcpProxy::Loop() {
  while (true) {
    bool limited = false;
    bool silent = false;
    {
      MutexLock lock(&mutex_);
      if (stop_) return;
      if (reset_) live_.clear();
      reset_ = false;
      limited = rate_ > 0;
      silent = silent_;
    }
    std::vector<pollfd> waiting = {{wake_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const auto& connection : live_) {
      if (silent) break;
      for (const Pipe* pipe : {&connection->up, &connection->down}) {
        const bool wants_read = pipe->buffered.empty() && Allowance(*pipe) > 0;
        if (wants_read) waiting.push_back({pipe->from, POLLIN, 0});
        if (!pipe->buffered.empty()) waiting.push_back({pipe->to, POLLOUT, 0});
      }
    }
    poll(waiting.data(), waiting.size(), limited ? kRatePollMilliseconds : -1);
    char drained[256];
    while (read(wake_[0], drained, sizeof(drained)) > 0) {
    }
    if ((waiting[1].revents & POLLIN) != 0) Accept();
    if (silent) continue;
    std::erase_if(live_, [this](const std::unique_ptr<Connection>& connection) {
      return !Forward(connection->up) || !Forward(connection->down);
    });
  }
}

}  // namespace diloco::testing
