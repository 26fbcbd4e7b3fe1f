// The worker's HTTP port, and the file that names it. Its metrics are the status board as it is at each scrape, also
// while the training thread waits.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/http/http_server.h"
#include "common/metrics/process_metrics.h"
#include "common/metrics/worker_metrics.h"
#include "common/net/host_port.h"
#include "worker/client/worker_status.h"

namespace diloco {

// `status` into the series of `metrics`; for one thread at a time.
void ShowStatus(const WorkerStatus& status, WorkerMetrics* metrics);

class WorkerHttp {
 public:
  // Ready once the worker trains. `board` outlives the object. Errors: as HttpServer::Start.
  static absl::StatusOr<std::unique_ptr<WorkerHttp>> Start(const HostPort& address, const StatusBoard* board);

  // Numeric, with the actual port.
  const HostPort& address() const { return server_->address(); }

 private:
  explicit WorkerHttp(const StatusBoard* board) : board_(board), metrics_(registry_), process_(registry_) {}

  void Refresh();

  const StatusBoard* const board_;
  prometheus::Registry registry_;
  WorkerMetrics metrics_;
  ProcessMetrics process_;
  std::unique_ptr<HttpServer> server_;  // Last: its threads use the rest.
};

// {"http": "127.0.0.1:7071", "pid": 4711}, "http" null without a port; all of it or nothing. Errors: kInvalidArgument.
absl::Status WritePortFile(const std::string& path, const WorkerHttp* http);

}  // namespace diloco
