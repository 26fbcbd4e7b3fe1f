// The coordinator's two gRPC services on one port, with the standard health and reflection services.
//
// Order of a shutdown: Stop() of this, then Driver::Shutdown(): open calls are answered by a driver that still runs.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/base/limits.h"
#include "common/files/file_system.h"
#include "common/metrics/coordinator_metrics.h"
#include "common/net/host_port.h"
#include "common/tls/tls_files.h"
#include "common/trace/trace.h"
#include "coordinator/driver/driver.h"
#include "coordinator/driver/event_log.h"
#include "coordinator/service/call_limits.h"

namespace diloco {

struct ServiceOptions {
  std::string run_id;
  HostPort address;                                            // Port 0: any free one.
  EventLog* events = nullptr;                                  // Outlives the service.
  TlsFiles tls;                                                // Checked before. Not given: plaintext.
  bool reflection = false;                                     // Standard server reflection.
  CallLimits::Options limits;                                  // Of each caller.
  Tracer* tracer = nullptr;                                    // Null: no trace.
  absl::Duration progress_deadline = kStreamProgressDeadline;  // Of a wait for a peer in a transfer.
  absl::Duration probe_time = kMaxProbeTime;                   // Of a whole probe.
};

class Service {
 public:
  // Serves when this returns. `driver` runs, and like the others outlives the service. Errors: as StartRpcServer, for
  // `what`.
  static absl::StatusOr<std::unique_ptr<Service>> Start(std::string_view what, ServiceOptions options, Driver* driver,
                                                        CoordinatorMetrics* metrics, FileSystem* files);
  // Stop(), with kDrainDeadline.
  ~Service();

  // Numeric, with the actual port.
  const HostPort& address() const;

  // Reports NOT_SERVING, takes no new calls, ends sessions and subscriptions with kUnavailable, lets transfers go on
  // for `drain_deadline`, then cancels them. No call is open when it returns. From one thread.
  void Stop(absl::Duration drain_deadline);

 private:
  class Impl;
  explicit Service(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace diloco
