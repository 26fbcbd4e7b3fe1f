#include "coordinator/app/run_observer.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "common/base/check.h"
#include "common/codec/codec.h"
#include "common/log/log.h"

namespace diloco {
namespace {

// Wall-clock time, for people: it goes into timestamps and nowhere else.
double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double CompressionRatio(const std::string& codec) {
  const Codec* found = FindCodec(codec);
  DILOCO_CHECK(found != nullptr);  // The configuration was checked.
  return static_cast<double>(found->block_elements) * sizeof(float) / found->block_bytes();
}

}  // namespace

void ShowSettings(const RunConfig& config, CoordinatorMetrics* metrics) {
  metrics->workers_expected.Set(config.run.workers);
  metrics->run_rounds.Set(static_cast<double>(config.run.rounds));
  metrics->run_inner_steps.Set(static_cast<double>(config.inner_steps));
  metrics->run_overlap_rounds.Set(static_cast<double>((config.overlap + config.inner_steps - 1) / config.inner_steps));
  metrics->run_snapshot_every_rounds.Set(static_cast<double>(config.rounds.snapshot_every));
  metrics->SetMethod(config.method, config.outer.optimizer);
  metrics->SetCodec("up", config.wire.uplink, CompressionRatio(config.wire.uplink));
  metrics->SetCodec("down", config.wire.downlink, CompressionRatio(config.wire.downlink));
}

void RunObserver::OnRecovered(int64_t version, uint64_t snapshot_bytes, int64_t newest_committed) {
  newest_committed_ = newest_committed;
  metrics_.round_newest_committed.Set(static_cast<double>(newest_committed));
  metrics_.snapshot_version.Set(static_cast<double>(version));
  metrics_.snapshot_bytes.Set(static_cast<double>(snapshot_bytes));
  LogInfo("recovered", {{"version", version}, {"newest_committed", newest_committed}});
}

void RunObserver::OnEffect(const RoundEffect& effect) { trace_.OnEffect(effect); }

void RunObserver::OnPhase(RunPhase phase) {
  phase_ = phase;
  ShowPhase();
  LogInfo("phase", {{"phase", kRunPhaseNames[static_cast<size_t>(phase)]}});
}

void RunObserver::ShowPhase() {
  const size_t holding = metrics_.run_phase.size() - 1;
  const size_t current = hold().empty() ? static_cast<size_t>(phase_) : holding;
  for (size_t i = 0; i <= holding; ++i) metrics_.run_phase[i]->Set(i == current ? 1 : 0);
}

std::string RunObserver::hold() const {
  MutexLock lock(&mutex_);
  return hold_;
}

void RunObserver::OnDiskRefused(DiskUser user, const std::string& sentence) {
  metrics_.disk_refusals[static_cast<size_t>(user)]->Increment();
  LogWarning("disk_refused", {{"what", kDiskUserNames[static_cast<size_t>(user)]}, {"reason", sentence}});
}

void RunObserver::OnHold(HoldCause cause, const std::string& reason) {
  const bool was_held = !hold().empty();
  for (size_t i = 0; i < metrics_.run_held.size(); ++i) {
    metrics_.run_held[i]->Set(!reason.empty() && i == static_cast<size_t>(cause) ? 1 : 0);
  }
  {
    MutexLock lock(&mutex_);
    hold_ = reason;
  }
  ShowPhase();
  if (reason.empty()) {
    LogInfo("released");
  } else if (!was_held) {
    LogWarning("holding", {{"reason", reason}});
  }
}

void RunObserver::OnMembers(const MemberCounts& counts) {
  metrics_.workers_alive.Set(counts.alive);
  metrics_.workers_draining.Set(counts.draining);
  metrics_.workers_suspended.Set(counts.suspended);
  metrics_.workers_lost.Set(counts.lost);
  metrics_.workers_left.Set(counts.left);
  metrics_.workers_evicted.Set(counts.evicted);
  metrics_.workers_participating.Set(counts.participating);
  trace_.OnMembers(counts.alive, counts.participating);
}

void RunObserver::OnWorkerJoined(const std::string& worker, bool returning) {
  (returning ? metrics_.joins_returning : metrics_.joins_new).Increment();
  LogInfo("worker_joined", {{"worker", worker}, {"returning", returning}});
}

void RunObserver::OnWorkerLost(const std::string& worker) {
  metrics_.worker_losses.Increment();
  LogWarning("worker_lost", {{"worker", worker}, {"reason", "its lease ended without a word from it"}});
}

void RunObserver::OnWorkerLeft(const std::string& worker) {
  metrics_.RemoveWorker(worker);
  LogInfo("worker_left", {{"worker", worker}});
}

void RunObserver::OnWorkerDraining(const std::string& worker) { LogInfo("worker_draining", {{"worker", worker}}); }

void RunObserver::OnWorkerEvicted(const std::string& worker, int dropped) {
  metrics_.RemoveWorker(worker);
  LogWarning("worker_evicted", {{"worker", worker}, {"contributions_dropped", dropped}});
}

void RunObserver::OnWorkerReadmitted(const std::string& worker) { LogInfo("worker_readmitted", {{"worker", worker}}); }

void RunObserver::OnProgress(const std::string& worker, const v1::WorkerProgress& progress) {
  metrics_.SetWorker(worker, progress, UnixSeconds());
  history_.AddProgress(worker, progress);
}

void RunObserver::OnEvaluation(const v1::Evaluation& evaluation) {
  metrics_.evaluation_loss.Set(evaluation.loss());
  metrics_.evaluation_version.Set(static_cast<double>(evaluation.version()));
  history_.AddEvaluation(evaluation);
  LogInfo("evaluation", {{"version", evaluation.version()},
                         {"loss", evaluation.loss()},
                         {"tokens", evaluation.tokens()},
                         {"worker", evaluation.worker_id()}});
}

void RunObserver::OnContribution(const ContributionId& id, Verdict verdict, const std::string& reason) {
  if (verdict == Verdict::kWanted) return;
  const size_t index = static_cast<size_t>(verdict) - 1;
  metrics_.contributions[index]->Increment();
  trace_.OnContribution(id, kVerdictNames[index]);
  const auto tell = verdict == Verdict::kRefused ? LogWarning : LogDebug;
  tell("contribution", {{"verdict", kVerdictNames[index]},
                        {"worker", id.worker},
                        {"fragment", id.fragment},
                        {"round", id.round},
                        {"reason", reason}});
}

void RunObserver::OnConfigurationChanged(const Digest& was, const Digest& is) {
  LogWarning("configuration_changed", {{"was", was.Hex()}, {"is", is.Hex()}});
}

void RunObserver::OnChunkReceived(const ContributionId& id, uint64_t payload_bytes) {
  trace_.OnChunkReceived(id, payload_bytes);
  metrics_.chunks_accepted.Increment();
  metrics_.received_bytes.Increment(static_cast<double>(payload_bytes));
}

void RunObserver::OnRoundWaiting(int fragment, int64_t round, const std::string& reason) {
  LogDebug("round_waiting", {{"fragment", fragment}, {"round", round}, {"reason", reason}});
}

void RunObserver::OnOldestRound(const std::optional<OldestRound>& oldest) {
  metrics_.round_oldest_open.Set(oldest ? static_cast<double>(oldest->round) : -1);
  metrics_.round_oldest_opened_timestamp_seconds.Set(oldest ? UnixSeconds() - absl::ToDoubleSeconds(oldest->open_for)
                                                            : 0);
  metrics_.round_quorum_workers.Set(oldest ? oldest->quorum : 0);
  metrics_.round_present_workers.Set(oldest ? oldest->present : 0);
  metrics_.round_grace_window_seconds.Set(oldest ? absl::ToDoubleSeconds(oldest->grace_window) : 0);
}

void RunObserver::OnStaged(uint64_t bytes) { metrics_.staged_bytes.Set(static_cast<double>(bytes)); }

void RunObserver::OnMerged(int fragment, int64_t round, absl::Duration took, double norm) {
  metrics_.merge_duration_seconds.Observe(absl::ToDoubleSeconds(took));
  metrics_.SetAverageNorm(fragment, norm);
  trace_.OnMerged(fragment, round);
  LogDebug("round_merged",
           {{"fragment", fragment}, {"round", round}, {"seconds", absl::ToDoubleSeconds(took)}, {"norm", norm}});
}

void RunObserver::OnCommitted(int fragment, int64_t round, absl::Duration since_opened, int merged, int dropped,
                              const std::string& reason) {
  metrics_.fragment_rounds.Increment();
  metrics_.round_duration_seconds.Observe(absl::ToDoubleSeconds(since_opened));
  newest_committed_ = std::max(newest_committed_, round);
  metrics_.round_newest_committed.Set(static_cast<double>(newest_committed_));
  history_.AddCommit(fragment, round, clock_.Now());
  trace_.OnCommitted(fragment, round, since_opened, merged, dropped, reason);
  LogInfo("round_committed", {{"fragment", fragment},
                              {"round", round},
                              {"merged", merged},
                              {"dropped", dropped},
                              {"seconds", absl::ToDoubleSeconds(since_opened)},
                              {"reason", reason}});
}

void RunObserver::OnSettled(v1::Settlement settlement, bool late) {
  constexpr size_t kMergedLate = std::size(kOutcomeNames) - 1;
  if (settlement == v1::SETTLEMENT_UNSPECIFIED) return;
  const bool merged_late = settlement == v1::SETTLEMENT_MERGED && late;
  metrics_.contributions_settled[merged_late ? kMergedLate : static_cast<size_t>(settlement) - 1]->Increment();
}

void RunObserver::OnPublished(uint64_t payload_bytes, int subscribers) {
  metrics_.published_bytes.Increment(static_cast<double>(payload_bytes) * subscribers);
  metrics_.subscribers.Set(subscribers);
  trace_.OnPublished(payload_bytes, subscribers);
}

void RunObserver::OnJournaled(absl::Duration took) {
  metrics_.journal_write_duration_seconds.Observe(absl::ToDoubleSeconds(took));
}

void RunObserver::OnJournalSize(uint64_t bytes) { metrics_.journal_bytes.Set(static_cast<double>(bytes)); }

void RunObserver::OnSnapshot(int64_t version, absl::Duration took, uint64_t bytes) {
  metrics_.snapshot_bytes.Set(static_cast<double>(bytes));
  metrics_.snapshot_write_duration_seconds.Observe(absl::ToDoubleSeconds(took));
  metrics_.snapshot_version.Set(static_cast<double>(version));
  metrics_.snapshot_last_success_timestamp_seconds.Set(UnixSeconds());
  trace_.OnSnapshot(version, took);
  LogInfo("snapshot", {{"version", version}, {"seconds", absl::ToDoubleSeconds(took)}});
}

void RunObserver::OnCheckpoint(int64_t version, const std::string& path, absl::Duration took) {
  metrics_.checkpoints_written.Increment();
  metrics_.checkpoint_write_duration_seconds.Observe(absl::ToDoubleSeconds(took));
  metrics_.checkpoint_last_success_timestamp_seconds.Set(UnixSeconds());
  trace_.OnCheckpoint(version);
  LogInfo("checkpoint", {{"version", version}, {"path", path}, {"seconds", absl::ToDoubleSeconds(took)}});
}

void RunObserver::OnCheckpointFailed(const absl::Status& status) {
  metrics_.checkpoints_failed.Increment();
  LogError("checkpoint_failed", {{"reason", status.ToString()}});
}

void RunObserver::OnPaused(absl::Duration duration) {
  LogWarning("paused", {{"seconds", absl::ToDoubleSeconds(duration)},
                        {"reason", "the process did not run; leases do not count that time"}});
}

void RunObserver::OnStartAgain(const std::string& reason) {
  LogWarning("consensus_replaced", {{"reason", reason}});
  OnHold(HoldCause::kFolderBehind, "");
  ends_.start_again();
}

void RunObserver::OnFatal(const absl::Status& status) {
  LogError("fatal", {{"reason", status.ToString()}});
  ends_.fatal(status);
}

void RunObserver::OnRunFinished() {
  LogInfo("run_finished");
  ends_.finished();
}

}  // namespace diloco
