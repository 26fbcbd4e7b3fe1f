// The metrics of diloco-coordinator: a plain struct of series, registered once at start-up with every label value that
// is known, so that each series starts at 0. Series of a worker exist while it is a member. Thread-safe, but for
// SetWorker and RemoveWorker, which are for one thread.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "common/metrics/families.h"
#include "diloco/v1/types.pb.h"

namespace diloco {

// Fragments whose average's norm has a series: a layout may have a thousand.
inline constexpr int kMaxFragmentSeries = 64;

struct CoordinatorMetrics {
  // `methods`: names of the calls that are served; `phases`: names of the run's phases; `verdicts`: of the answers to
  // a contribution; `disk_users`: of what the disk is asked for; `hold_causes`: of what holds a run; `outcomes`: of
  // what becomes of a contribution; `refusals`: why a peer is not let in; `limits`: of each caller. They are the label
  // values, in this order.
  struct LabelValues {
    absl::Span<const char* const> methods;
    absl::Span<const char* const> phases;
    absl::Span<const char* const> verdicts;
    absl::Span<const char* const> disk_users;
    absl::Span<const char* const> hold_causes;
    absl::Span<const char* const> outcomes;
    absl::Span<const char* const> refusals;
    absl::Span<const char* const> limits;
  };
  CoordinatorMetrics(prometheus::Registry& registry, const LabelValues& values);

  // ---- The run and its members ----
  std::vector<prometheus::Gauge*> run_phase;  // By index of `phases`.
  std::vector<prometheus::Gauge*> run_held;   // By index of `hold_causes`.
  prometheus::Gauge& run_rounds;
  prometheus::Gauge& run_inner_steps;
  prometheus::Gauge& run_overlap_rounds;
  prometheus::Gauge& run_snapshot_every_rounds;
  // Once.
  void SetMethod(const std::string& method, const std::string& outer_optimizer);
  // Once for each direction, "up" and "down".
  void SetCodec(const std::string& direction, const std::string& codec, double compression_ratio);
  prometheus::Gauge& workers_expected;
  prometheus::Gauge& workers_alive;
  prometheus::Gauge& workers_draining;
  prometheus::Gauge& workers_suspended;
  prometheus::Gauge& workers_lost;
  prometheus::Gauge& workers_left;
  prometheus::Gauge& workers_evicted;
  prometheus::Gauge& workers_participating;
  prometheus::Counter& joins_new;
  prometheus::Counter& joins_returning;
  prometheus::Counter& worker_losses;
  // `now_seconds`: Unix time. The totals of `progress` start again with each session of the worker.
  void SetWorker(const std::string& worker, const v1::WorkerProgress& progress, double now_seconds);
  void RemoveWorker(const std::string& worker);

  // ---- Contributions, rounds, publication ----
  prometheus::Counter& chunks_accepted;
  prometheus::Counter& chunks_corrupt;
  prometheus::Counter& received_bytes;
  prometheus::Gauge& staged_bytes;
  std::vector<prometheus::Counter*> contributions;          // By index of `verdicts`.
  std::vector<prometheus::Counter*> contributions_settled;  // By index of `outcomes`.
  prometheus::Counter& fragment_rounds;
  prometheus::Gauge& round_newest_committed;
  prometheus::Gauge& round_oldest_open;
  prometheus::Gauge& round_oldest_opened_timestamp_seconds;
  prometheus::Gauge& round_quorum_workers;
  prometheus::Gauge& round_present_workers;
  prometheus::Gauge& round_grace_window_seconds;
  prometheus::Histogram& round_duration_seconds;
  prometheus::Histogram& merge_duration_seconds;
  // Of a fragment's newest average; those behind the first kMaxFragmentSeries are not shown.
  void SetAverageNorm(int fragment, double norm);
  prometheus::Counter& published_bytes;
  prometheus::Gauge& subscribers;
  prometheus::Gauge& evaluation_loss;
  prometheus::Gauge& evaluation_version;
  prometheus::Histogram& snapshot_write_duration_seconds;
  prometheus::Gauge& snapshot_bytes;
  prometheus::Gauge& snapshot_version;
  prometheus::Gauge& snapshot_last_success_timestamp_seconds;
  prometheus::Counter& checkpoints_written;
  prometheus::Counter& checkpoints_failed;
  prometheus::Histogram& checkpoint_write_duration_seconds;
  prometheus::Gauge& checkpoint_last_success_timestamp_seconds;
  prometheus::Histogram& journal_write_duration_seconds;
  prometheus::Gauge& journal_bytes;
  prometheus::Gauge& disk_free_bytes;
  std::vector<prometheus::Counter*> disk_refusals;  // By index of `disk_users`.

  // ---- Calls ----
  std::vector<prometheus::Counter*> authentication_failures;  // By index of `refusals`.
  std::vector<prometheus::Counter*> calls_limited;            // By index of `limits`.
  std::vector<prometheus::Gauge*> calls_open;                 // By index of `methods`.
  // A call that ended `took` after its start. `method`: index of `methods`.
  void CountCall(size_t method, absl::StatusCode code, absl::Duration took);

 private:
  static constexpr size_t kWorkerGauges = 7;
  static constexpr size_t kWorkerCounters = 7;
  struct WorkerSeries {
    std::array<prometheus::Gauge*, kWorkerGauges> gauges;
    std::array<prometheus::Counter*, kWorkerCounters> counters;
  };

  const std::vector<std::string> methods_;
  prometheus::Family<prometheus::Counter>* calls_;
  std::vector<prometheus::Histogram*> call_durations_;  // By index of `methods`.
  prometheus::Family<prometheus::Gauge>* run_info_;
  prometheus::Family<prometheus::Gauge>* compression_;
  prometheus::Family<prometheus::Gauge>* average_norms_;
  const std::array<prometheus::Family<prometheus::Gauge>*, kWorkerGauges> worker_gauges_;
  const std::array<prometheus::Family<prometheus::Counter>*, kWorkerCounters> worker_counters_;
  std::map<std::string, WorkerSeries> worker_series_;
};

}  // namespace diloco
