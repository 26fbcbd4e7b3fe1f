#include "common/metrics/coordinator_metrics.h"

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
      contributions(CountersOf(registry, kContributions, "verdict", values.verdicts)),
      contributions_merged(CounterOf(registry, kContributionsSettled, "outcome", "merged")),
      contributions_dropped(CounterOf(registry, kContributionsSettled, "outcome", "dropped")),
      fragment_rounds(OneCounter(registry, kFragmentRounds)),
      round_newest_committed(OneGauge(registry, kRoundNewest)),
      round_duration_seconds(OneDuration(registry, kRoundDuration)),
      merge_duration_seconds(OneDuration(registry, kMergeDuration)),
      average_norm(OneGauge(registry, kAverageNorm)),
      published_bytes(OneCounter(registry, kPublishedBytes)),
      subscribers(OneGauge(registry, kSubscribers)),
      evaluation_loss(OneGauge(registry, kEvaluationLoss)),
      evaluation_version(OneGauge(registry, kEvaluationVersion)),
      snapshot_write_duration_seconds(OneDuration(registry, kSnapshotDuration)),
      snapshot_version(OneGauge(registry, kSnapshotVersion)),
      snapshot_last_success_timestamp_seconds(OneGauge(registry, kSnapshotSuccess)),
      checkpoints(OneCounter(registry, kCheckpoints)),
      disk_refusals(CountersOf(registry, kDiskRefusals, "what", values.disk_users)),
      calls_open(GaugesOf(registry, kCallsOpen, "method", values.methods)),
      methods_(values.methods.begin(), values.methods.end()),
      calls_(&CounterFamily(registry, kCalls)),
      worker_families_({&GaugeFamily(registry, kWorkerHeartbeat), &GaugeFamily(registry, kWorkerStep),
                        &GaugeFamily(registry, kWorkerRound), &GaugeFamily(registry, kWorkerStaleness),
                        &GaugeFamily(registry, kWorkerLoss), &GaugeFamily(registry, kWorkerTokenRate),
                        &GaugeFamily(registry, kWorkerUtilization)}) {
  RegisterBuildInfo(registry);
  round_newest_committed.Set(-1);
  evaluation_version.Set(-1);
  snapshot_version.Set(-1);
  for (const std::string& method : methods_) {
    calls_->Add({{"method", method}, {"code", "OK"}});
    call_durations_.push_back(&OneDuration(registry, kCallDuration, {{"method", method}}));
  }
}

void CoordinatorMetrics::SetWorker(const std::string& worker, const v1::WorkerProgress& progress, double now_seconds) {
  auto [entry, added] = worker_series_.try_emplace(worker);
  if (added) {
    for (size_t i = 0; i < kWorkerGauges; ++i) entry->second[i] = &worker_families_[i]->Add({{"worker", worker}});
  }
  const double utilization = progress.wall_seconds() > 0 ? 1 - progress.blocked_seconds() / progress.wall_seconds() : 1;
  const std::array<double, kWorkerGauges> values = {now_seconds,
                                                    static_cast<double>(progress.step()),
                                                    static_cast<double>(progress.round()),
                                                    static_cast<double>(progress.staleness()),
                                                    progress.loss(),
                                                    progress.tokens_per_second(),
                                                    utilization};
  for (size_t i = 0; i < kWorkerGauges; ++i) entry->second[i]->Set(values[i]);
}

void CoordinatorMetrics::RemoveWorker(const std::string& worker) {
  const auto entry = worker_series_.find(worker);
  if (entry == worker_series_.end()) return;
  for (size_t i = 0; i < kWorkerGauges; ++i) worker_families_[i]->Remove(entry->second[i]);
  worker_series_.erase(entry);
}

void CoordinatorMetrics::CountCall(size_t method, absl::StatusCode code, absl::Duration took) {
  DILOCO_CHECK(method < methods_.size());
  calls_->Add({{"method", methods_[method]}, {"code", absl::StatusCodeToString(code)}}).Increment();
  call_durations_[method]->Observe(absl::ToDoubleSeconds(took));
}

}  // namespace diloco
