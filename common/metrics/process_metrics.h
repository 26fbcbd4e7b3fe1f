// What the operating system says of this process, under the names that Prometheus client libraries share. Linux only:
// what /proc does not tell stays as it was.
#pragma once

#include "common/metrics/families.h"

namespace diloco {

class ProcessMetrics {
 public:
  explicit ProcessMetrics(prometheus::Registry& registry);

  // Reads it anew. For one thread at a time.
  void Refresh();

 private:
  prometheus::Counter& cpu_seconds_;
  prometheus::Gauge& resident_memory_bytes_;
  prometheus::Gauge& open_files_;
  prometheus::Gauge& max_files_;
  prometheus::Gauge& threads_;
  prometheus::Gauge& start_time_seconds_;
};

}  // namespace diloco
