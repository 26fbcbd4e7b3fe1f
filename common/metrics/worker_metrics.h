// The metrics of diloco-worker: a plain struct of series, registered once at start-up. The series are thread-safe;
// Report and RaiseTo are for one thread at a time.
#pragma once

#include "common/metrics/families.h"
#include "diloco/v1/types.pb.h"

namespace diloco {

// A counter only takes increments. A total that fell is kept.
void RaiseTo(prometheus::Counter& counter, double total);

struct WorkerMetrics {
  explicit WorkerMetrics(prometheus::Registry& registry);

  // Sets everything that the worker also reports to the coordinator. Counters follow the totals of `progress`, which
  // never fall within a session.
  void Report(const v1::WorkerProgress& progress);

  prometheus::Counter& inner_steps;
  prometheus::Counter& tokens;
  prometheus::Gauge& tokens_per_second;
  prometheus::Gauge& train_loss;
  prometheus::Gauge& round;
  prometheus::Gauge& consensus_version;
  prometheus::Gauge& staleness_rounds;
  prometheus::Counter& blocked_seconds;
  prometheus::Counter& wall_seconds;
  prometheus::Counter& evaluation_seconds;
  prometheus::Gauge& utilization_ratio;
  prometheus::Counter& rounds_skipped;
  prometheus::Counter& outer_gradients_not_finite;
  prometheus::Counter& uploaded_bytes;
  prometheus::Counter& downloaded_bytes;

  // Not part of the report.
  prometheus::Counter& uploads;
  prometheus::Counter& upload_seconds;
  prometheus::Counter& downloads;
  prometheus::Counter& download_seconds;
  prometheus::Gauge& upload_queue_contributions;
  prometheus::Counter& resyncs;
  prometheus::Gauge& connected;
  prometheus::Counter& reconnects;
  prometheus::Gauge& evaluation_loss;
  prometheus::Gauge& evaluation_version;
  prometheus::Counter& checkpoints_written;
  prometheus::Counter& checkpoints_failed;
  prometheus::Counter& checkpoint_write_seconds;
  prometheus::Gauge& checkpoint_step;
};

}  // namespace diloco
