#include "common/http/http_server.h"

#include <httplib.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>

#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/http/bounded_task_queue.h"
#include "common/net/listen_address.h"

namespace diloco {
namespace {

constexpr int kHttpThreads = 4;
constexpr size_t kMaxHttpWaiting = 32;
constexpr int kHttpTimeoutSeconds = 2;      // Of a request, a read or a write that makes no progress.
constexpr size_t kMaxHttpBodyBytes = 1024;  // Requests here have none.
constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";
// A page's scripts, styles and images are files of this port; nothing is inline, and nothing comes from elsewhere.
constexpr char kContentSecurityPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

void ReuseAddressOnly(int socket_fd) {
  // The library's default shares the port with other processes (SO_REUSEPORT).
  const int yes = 1;
  setsockopt(socket_fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

// The library takes paths for regular expressions.
std::string EscapedPath(const std::string& path) { return absl::StrReplaceAll(path, {{".", "\\."}}); }

}  // namespace

class HttpServer::Impl {
 public:
  explicit Impl(HttpServerOptions options) : options_(std::move(options)) {
    server_.set_socket_options(ReuseAddressOnly);
    server_.set_keep_alive_max_count(1);
    server_.set_keep_alive_timeout(kHttpTimeoutSeconds);
    server_.set_read_timeout(kHttpTimeoutSeconds);
    server_.set_write_timeout(kHttpTimeoutSeconds);
    server_.set_payload_max_length(kMaxHttpBodyBytes);
    server_.new_task_queue = [this] {
      // The library calls this once it listens for stop(): from here on the destructor can end it.
      MutexLock lock(&mutex_);
      serving_ = true;
      changed_.NotifyAll();
      return new BoundedTaskQueue(kHttpThreads, kMaxHttpWaiting);
    };
    server_.set_default_headers({{"Cache-Control", "no-store"},
                                 {"Content-Security-Policy", kContentSecurityPolicy},
                                 {"Referrer-Policy", "no-referrer"},
                                 {"X-Content-Type-Options", "nosniff"}});
    server_.set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
      if (request.method == "GET" || request.method == "HEAD") return httplib::Server::HandlerResponse::Unhandled;
      response.status = 405;
      response.set_header("Allow", "GET, HEAD");
      response.set_content("this port is read-only\n", kHttpTextType);
      return httplib::Server::HandlerResponse::Handled;
    });
    ServeProbes();
    for (const HttpRoute& route : options_.routes) {
      server_.Get(EscapedPath(route.path), [&route](const httplib::Request&, httplib::Response& response) {
        HttpAnswer answer = route.answer();
        response.status = answer.status;
        response.set_content(std::move(answer.body), answer.type);
      });
    }
  }

  ~Impl() {
    if (!thread_.joinable()) return;
    server_.stop();
    thread_.join();
  }

  absl::Status Listen(std::string_view what) {
    DILOCO_ASSIGN_OR_RETURN(address_, ResolveListenAddress(what, options_.address));
    DILOCO_RETURN_IF_ERROR(ProbeListenAddress(what, address_));
    const bool any_port = address_.port == 0;
    const int port = any_port ? server_.bind_to_any_port(address_.host)
                              : (server_.bind_to_port(address_.host, address_.port) ? address_.port : -1);
    if (port < 0) {
      // Free a moment ago, so somebody was faster.
      return absl::AlreadyExistsError(absl::StrFormat("%s %s: the port is in use", what, address_.ToString()));
    }
    address_.port = port;
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    MutexLock lock(&mutex_);
    while (!serving_) changed_.Wait(&mutex_);
    return absl::OkStatus();
  }

  const HostPort& address() const { return address_; }

 private:
  void ServeProbes() {
    server_.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      MutexLock lock(&scrape_mutex_);
      if (options_.before_scrape) options_.before_scrape();
      response.set_content(prometheus::TextSerializer().Serialize(options_.registry->Collect()), kMetricsType);
    });
    server_.Get("/healthz", [](const httplib::Request&, httplib::Response& response) {
      response.set_content("ok\n", kHttpTextType);
    });
    server_.Get("/readyz", [this](const httplib::Request&, httplib::Response& response) {
      const absl::Status status = options_.ready();
      response.status = status.ok() ? 200 : 503;
      std::string text = status.ok() ? "ready\n" : std::string(status.message()) + "\n";
      const std::string amiss = status.ok() && options_.amiss ? options_.amiss() : "";
      if (!amiss.empty()) text += amiss + "\n";
      response.set_content(text, kHttpTextType);
    });
  }

  const HttpServerOptions options_;
  HostPort address_;
  httplib::Server server_;
  Mutex mutex_;
  CondVar changed_;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
  Mutex scrape_mutex_;  // Held during a scrape.
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(std::string_view what, HttpServerOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  DILOCO_RETURN_IF_ERROR(impl->Listen(what));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() = default;

const HostPort& HttpServer::address() const { return impl_->address(); }

}  // namespace diloco
