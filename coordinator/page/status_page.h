// The status page: what the coordinator's HTTP port serves besides probes and scrapes.
//   /, /page/...    the page and its files (coordinator/page/web)
//   /api/overview   {"status", "rounds", "open_round", "workers"}: the run now, each as `dilococtl -o json` prints it;
//                   open_round is the oldest open round in full, null when there is none
//   /api/history    {"inner_steps", "commits", "held_out", "workers"}: see run_history.h
// An API that has no answer now is 503 with {"error": "why"}. However many pages are open, the driver is asked once a
// second (cached_answer.h). Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/http/http_server.h"
#include "coordinator/driver/driver.h"
#include "coordinator/page/cached_answer.h"
#include "coordinator/page/run_history.h"

namespace diloco {

// From the question to the driver's answers.
inline constexpr absl::Duration kOverviewDeadline = absl::Seconds(2);

class StatusPage {
 public:
  struct Options {
    const Clock* clock = nullptr;
    const RunHistory* history = nullptr;
    int64_t inner_steps = 0;
    std::function<absl::Status()> ready;  // As HttpServerOptions: the page has no answer until it is OK.
  };
  // What `options` names outlives it.
  explicit StatusPage(Options options);

  // The driver to ask, until Detach. Both may be called while answers are being made.
  void Attach(Driver* driver);
  void Detach();

  // For HttpServerOptions; the server ends before this.
  std::vector<HttpRoute> Routes();

 private:
  template <typename Request, typename Response>
  absl::StatusOr<Response> Ask(void (Driver::*call)(Request, Reply<Response>), Request request, MonotonicTime deadline);
  absl::StatusOr<std::string> MakeOverview();

  const Options options_;
  Mutex mutex_;
  Driver* driver_ ABSL_GUARDED_BY(mutex_) = nullptr;
  CachedAnswer overview_;
  CachedAnswer history_;
};

}  // namespace diloco
