// Counts one call: open while it lives, handled with its code at the end.
#pragma once

#include "absl/status/status.h"

#include "common/metrics/coordinator_metrics.h"
#include "coordinator/service/method.h"

namespace diloco {

class CallRecord {
 public:
  CallRecord(CoordinatorMetrics* metrics, Method method) : metrics_(metrics), method_(static_cast<size_t>(method)) {
    metrics_->calls_open[method_]->Increment();
  }
  // Once.
  void Finished(absl::StatusCode code) const {
    metrics_->calls_open[method_]->Decrement();
    metrics_->CountCall(method_, code);
  }

 private:
  CoordinatorMetrics* metrics_;
  size_t method_;
};

}  // namespace diloco
