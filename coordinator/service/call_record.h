// Counts one call: open while it lives, handled with its code and duration at the end.
#pragma once

#include "absl/status/status.h"

#include "common/base/clock.h"
#include "common/metrics/coordinator_metrics.h"
#include "coordinator/service/method.h"

namespace diloco {

class CallRecord {
 public:
  CallRecord(CoordinatorMetrics* metrics, Method method)
      : metrics_(metrics), method_(static_cast<size_t>(method)), started_(SteadyClock().Now()) {
    metrics_->calls_open[method_]->Increment();
  }
  // Once.
  void Finished(absl::StatusCode code) const {
    metrics_->calls_open[method_]->Decrement();
    metrics_->CountCall(method_, code, SteadyClock().Now() - started_);
  }

 private:
  CoordinatorMetrics* metrics_;
  size_t method_;
  MonotonicTime started_;
};

}  // namespace diloco
