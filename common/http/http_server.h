// The read-only HTTP port of both programs:
//   /metrics  a registry in Prometheus' text format
//   /healthz  200 "ok" while the process answers (liveness)
//   /readyz   200 "ready" and, on a line of its own, what is amiss all the same; or 503 with the reason (readiness:
//             recovery, start-up, shutdown)
// and whatever else its owner serves. GET and HEAD only, everything else is 405. No answer may be cached, framed or
// taken for another type, and what a browser loads for it comes from this port alone (Content-Security-Policy).
// It has threads of its own with stacks of the usual size, a fixed number of them, and closes each connection after one
// answer, so that an idle peer holds no thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/net/host_port.h"

namespace prometheus {
class Registry;
}

namespace diloco {

struct HttpAnswer {
  int status = 200;
  std::string type;  // Content-Type.
  std::string body;
};

struct HttpRoute {
  std::string path;                    // Exact, such as "/api/overview"; letters, digits, `/`, `.`, `-` and `_`.
  std::function<HttpAnswer()> answer;  // Called on the server's threads; may wait, with a deadline, and holds one then.
};

struct HttpServerOptions {
  HostPort address;                                // Port 0: any free one.
  const prometheus::Registry* registry = nullptr;  // Outlives the server.
  // OK, or why not. Called on the server's threads, so it is thread-safe and must not block.
  std::function<absl::Status()> ready;
  std::function<std::string()> amiss;  // Empty: nothing. As `ready`; may be null.
  // Sets what is known only when it is asked for, before the registry is read. On the server's threads, one at a time;
  // must not block; may be null.
  std::function<void()> before_scrape;
  std::vector<HttpRoute> routes;
};

inline constexpr char kHttpTextType[] = "text/plain; charset=utf-8";
inline constexpr char kHttpJsonType[] = "application/json";

class HttpServer {
 public:
  // Listens and serves when this returns. Errors: as ResolveListenAddress and ProbeListenAddress, for `what`.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(std::string_view what, HttpServerOptions options);
  // Stops listening, finishes the answers that are being written (each has a deadline) and joins the threads.
  ~HttpServer();

  // Numeric, with the actual port.
  const HostPort& address() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace diloco
