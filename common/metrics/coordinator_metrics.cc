#include "common/metrics/coordinator_metrics.h"

#include <cmath>
#include <limits>

#include "common/base/check.h"

namespace diloco {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Registry;

// Several series of one family: the registry gives the same family for the same name.
Counter& CounterOf(Registry& registry, const MetricName& metric, const char* label, const char* value) {
  return CounterFamily(registry, metric).Add({{label, value}});
}

Gauge& GaugeOf(Registry& registry, const MetricName& metric, const char* label, const char* value) {
  return GaugeFamily(registry, metric).Add({{label, value}});
}

std::vector<Gauge*> GaugesOf(Registry& registry, const MetricName& metric, const char* label,
                             absl::Span<const char* const> values) {
  std::vector<Gauge*> series;
  for (const char* value : values) series.push_back(&GaugeOf(registry, metric, label, value));
  return series;
}

std::vector<Counter*> CountersOf(Registry& registry, const MetricName& metric, const char* label,
                                 absl::Span<const char* const> values) {
  std::vector<Counter*> series;
  for (const char* value : values) series.push_back(&CounterOf(registry, metric, label, value));
  return series;
}

}  // namespace

CoordinatorMetrics::CoordinatorMetrics(Registry& registry, const LabelValues& values)
    : run_phase(GaugesOf(registry, kRunPhase, "phase", values.phases)),
      run_held(GaugesOf(registry, kRunHeld, "cause", values.hold_causes)),
      run_rounds(OneGauge(registry, kRunRounds)),
      run_inner_steps(OneGauge(registry, kRunInnerSteps)),
      run_overlap_rounds(OneGauge(registry, kRunOverlap)),
      run_snapshot_every_rounds(OneGauge(registry, kRunSnapshotEvery)),
      workers_expected(OneGauge(registry, kWorkersExpected)),
      workers_alive(GaugeOf(registry, kWorkers, "state", "alive")),
      workers_draining(GaugeOf(registry, kWorkers, "state", "draining")),
      workers_suspended(GaugeOf(registry, kWorkers, "state", "suspended")),
      workers_lost(GaugeOf(registry, kWorkers, "state", "lost")),
      workers_left(GaugeOf(registry, kWorkers, "state", "left")),
      workers_evicted(GaugeOf(registry, kWorkers, "state", "evicted")),
      workers_participating(OneGauge(registry, kWorkersParticipating)),
      joins_new(CounterOf(registry, kWorkerJoins, "kind", "new")),
      joins_returning(CounterOf(registry, kWorkerJoins, "kind", "returning")),
      worker_losses(OneCounter(registry, kWorkerLosses)),
      chunks_accepted(CounterOf(registry, kContributionChunks, "outcome", "accepted")),
      chunks_corrupt(CounterOf(registry, kContributionChunks, "outcome", "corrupt")),
      received_bytes(OneCounter(registry, kReceivedBytes)),
      staged_bytes(OneGauge(registry, kStagedBytes)),
      contributions(CountersOf(registry, kContributions, "verdict", values.verdicts)),
      contributions_settled(CountersOf(registry, kContributionsSettled, "outcome", values.outcomes)),
      fragment_rounds(OneCounter(registry, kFragmentRounds)),
      round_newest_committed(OneGauge(registry, kRoundNewest)),
      round_oldest_open(OneGauge(registry, kRoundOldest)),
      round_oldest_opened_timestamp_seconds(OneGauge(registry, kRoundOpened)),
      round_quorum_workers(OneGauge(registry, kRoundQuorum)),
      round_present_workers(OneGauge(registry, kRoundPresent)),
      round_grace_window_seconds(OneGauge(registry, kRoundGrace)),
      round_duration_seconds(OneDuration(registry, kRoundDuration)),
      merge_duration_seconds(OneDuration(registry, kMergeDuration)),
      published_bytes(OneCounter(registry, kPublishedBytes)),
      subscribers(OneGauge(registry, kSubscribers)),
      evaluation_loss(OneGauge(registry, kEvaluationLoss)),
      evaluation_version(OneGauge(registry, kEvaluationVersion)),
      snapshot_write_duration_seconds(OneDuration(registry, kSnapshotDuration)),
      snapshot_bytes(OneGauge(registry, kSnapshotBytes)),
      snapshot_version(OneGauge(registry, kSnapshotVersion)),
      snapshot_last_success_timestamp_seconds(OneGauge(registry, kSnapshotSuccess)),
      checkpoints_written(CounterOf(registry, kCheckpoints, "outcome", "written")),
      checkpoints_failed(CounterOf(registry, kCheckpoints, "outcome", "failed")),
      checkpoint_write_duration_seconds(OneDuration(registry, kCheckpointDuration)),
      checkpoint_last_success_timestamp_seconds(OneGauge(registry, kCheckpointSuccess)),
      journal_write_duration_seconds(OneDuration(registry, kJournalDuration)),
      journal_bytes(OneGauge(registry, kJournalBytes)),
      disk_free_bytes(OneGauge(registry, kDiskFree)),
      disk_refusals(CountersOf(registry, kDiskRefusals, "what", values.disk_users)),
      authentication_failures(CountersOf(registry, kAuthenticationFailures, "reason", values.refusals)),
      calls_limited(CountersOf(registry, kCallsLimited, "limit", values.limits)),
      calls_open(GaugesOf(registry, kCallsOpen, "method", values.methods)),
      methods_(values.methods.begin(), values.methods.end()),
      calls_(&CounterFamily(registry, kCalls)),
      run_info_(&GaugeFamily(registry, kRunInfo)),
      compression_(&GaugeFamily(registry, kCompression)),
      average_norms_(&GaugeFamily(registry, kAverageNorm)),
      worker_gauges_({&GaugeFamily(registry, kWorkerHeartbeat), &GaugeFamily(registry, kWorkerStep),
                      &GaugeFamily(registry, kWorkerRound), &GaugeFamily(registry, kWorkerStaleness),
                      &GaugeFamily(registry, kWorkerLoss), &GaugeFamily(registry, kWorkerTokenRate),
                      &GaugeFamily(registry, kWorkerUtilization)}),
      worker_counters_({&CounterFamily(registry, kWorkerTokens), &CounterFamily(registry, kWorkerBlocked),
                        &CounterFamily(registry, kWorkerWall), &CounterFamily(registry, kWorkerSkipped),
                        &CounterFamily(registry, kWorkerNotFinite), &CounterFamily(registry, kWorkerUploaded),
                        &CounterFamily(registry, kWorkerDownloaded)}) {
  RegisterBuildInfo(registry);
  round_newest_committed.Set(-1);
  round_oldest_open.Set(-1);
  evaluation_loss.Set(std::numeric_limits<double>::quiet_NaN());
  evaluation_version.Set(-1);
  snapshot_version.Set(-1);
  for (const std::string& method : methods_) {
    calls_->Add({{"method", method}, {"code", "OK"}});
    call_durations_.push_back(&OneDuration(registry, kCallDuration, {{"method", method}}));
  }
}

void CoordinatorMetrics::SetMethod(const std::string& method, const std::string& outer_optimizer) {
  run_info_->Add({{"method", method}, {"outer_optimizer", outer_optimizer}}).Set(1);
}

void CoordinatorMetrics::SetCodec(const std::string& direction, const std::string& codec, double compression_ratio) {
  compression_->Add({{"direction", direction}, {"codec", codec}}).Set(compression_ratio);
}

void CoordinatorMetrics::SetAverageNorm(int fragment, double norm) {
  if (fragment < kMaxFragmentSeries) average_norms_->Add({{"fragment", std::to_string(fragment)}}).Set(norm);
}

void CoordinatorMetrics::SetWorker(const std::string& worker, const v1::WorkerProgress& progress, double now_seconds) {
  const double utilization = progress.wall_seconds() > 0 ? 1 - progress.blocked_seconds() / progress.wall_seconds() : 1;
  const std::array<double, kWorkerGauges> values = {now_seconds,
                                                    static_cast<double>(progress.step()),
                                                    static_cast<double>(progress.round()),
                                                    static_cast<double>(progress.staleness()),
                                                    progress.loss(),
                                                    progress.tokens_per_second(),
                                                    utilization};
  const std::array<double, kWorkerCounters> totals = {static_cast<double>(progress.tokens()),
                                                      progress.blocked_seconds(),
                                                      progress.wall_seconds(),
                                                      static_cast<double>(progress.rounds_skipped()),
                                                      static_cast<double>(progress.outer_gradients_not_finite()),
                                                      static_cast<double>(progress.uploaded_bytes()),
                                                      static_cast<double>(progress.downloaded_bytes())};
  auto [entry, added] = worker_series_.try_emplace(worker);
  WorkerSeries& series = entry->second;
  for (size_t i = 0; i < kWorkerGauges; ++i) {
    if (added) series.gauges[i] = &worker_gauges_[i]->Add({{"worker", worker}});
    series.gauges[i]->Set(values[i]);
  }
  for (size_t i = 0; i < kWorkerCounters; ++i) {
    const double total = std::isfinite(totals[i]) ? totals[i] : 0;  // It came over the wire.
    // A counter never falls: that of a new session is another one, and rate() takes that for the reset that it is.
    if (!added && total < series.counters[i]->Value()) worker_counters_[i]->Remove(series.counters[i]);
    series.counters[i] = &worker_counters_[i]->Add({{"worker", worker}});
    series.counters[i]->Increment(total - series.counters[i]->Value());
  }
}

void CoordinatorMetrics::RemoveWorker(const std::string& worker) {
  const auto entry = worker_series_.find(worker);
  if (entry == worker_series_.end()) return;
  for (size_t i = 0; i < kWorkerGauges; ++i) worker_gauges_[i]->Remove(entry->second.gauges[i]);
  for (size_t i = 0; i < kWorkerCounters; ++i) worker_counters_[i]->Remove(entry->second.counters[i]);
  worker_series_.erase(entry);
}

void CoordinatorMetrics::CountCall(size_t method, absl::StatusCode code, absl::Duration took) {
  DILOCO_CHECK(method < methods_.size());
  calls_->Add({{"method", methods_[method]}, {"code", absl::StatusCodeToString(code)}}).Increment();
  call_durations_[method]->Observe(absl::ToDoubleSeconds(took));
}

}  // namespace diloco
