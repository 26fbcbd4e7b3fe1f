// What the calls of the service work with. Everything outlives them.
#pragma once

#include <atomic>
#include <string>

#include "absl/time/time.h"

#include "common/files/file_system.h"
#include "common/metrics/coordinator_metrics.h"
#include "common/trace/trace.h"
#include "coordinator/driver/driver.h"
#include "coordinator/driver/event_log.h"
#include "coordinator/driver/executor.h"
#include "coordinator/service/gatekeeper.h"
#include "coordinator/service/stream_set.h"
#include "coordinator/service/watchdog.h"

namespace diloco {

struct ServiceWorld {
  std::string run_id;
  absl::Duration progress_deadline;  // A wait for a peer in a transfer.
  absl::Duration probe_time;         // Of a whole probe.
  Tracer* tracer = nullptr;          // May be null.
  Driver* driver = nullptr;
  EventLog* events = nullptr;
  CoordinatorMetrics* metrics = nullptr;
  FileSystem* files = nullptr;  // OpenForRead only, on `readers`.
  Executor* readers = nullptr;
  Watchdog* watchdog = nullptr;
  StreamSet* streams = nullptr;
  Gatekeeper* gate = nullptr;
  std::atomic<bool>* seed_open = nullptr;   // One seed is assembled at a time: it is as large as the model.
  std::atomic<bool>* probe_open = nullptr;  // Likewise: probes would measure each other.
};

}  // namespace diloco
