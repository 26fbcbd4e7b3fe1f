#include "coordinator/app/run_observer.h"

#include <spdlog/spdlog.h>

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
  metrics->run_overlap_rounds.Set(
      static_cast<double>((config.overlap + config.inner_steps - 1) / config.inner_steps));
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
  spdlog::info("event=recovered version={} newest_committed={}", version, newest_committed);
}

void RunObserver::OnPhase(RunPhase phase) {
  phase_ = phase;
  ShowPhase();
  spdlog::info("event=phase phase={}", kRunPhaseNames[static_cast<size_t>(phase)]);
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
  spdlog::warn("event=disk_refused what={} reason={}", kDiskUserNames[static_cast<size_t>(user)], Quoted(sentence));
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
    spdlog::info("event=released");
  } else if (!was_held) {
    spdlog::warn("event=holding reason={}", Quoted(reason));
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
}

void RunObserver::OnWorkerJoined(const std::string& worker, bool returning) {
  (returning ? metrics_.joins_returning : metrics_.joins_new).Increment();
  spdlog::info("event=worker_joined worker={} returning={}", worker, returning);
}

void RunObserver::OnWorkerLost(const std::string& worker) {
  metrics_.worker_losses.Increment();
  spdlog::warn("event=worker_lost worker={}", worker);
}

void RunObserver::OnWorkerLeft(const std::string& worker) {
  metrics_.RemoveWorker(worker);
  spdlog::info("event=worker_left worker={}", worker);
}

void RunObserver::OnWorkerDraining(const std::string& worker) {
  spdlog::info("event=worker_draining worker={}", worker);
}

void RunObserver::OnWorkerEvicted(const std::string& worker, int dropped) {
  metrics_.RemoveWorker(worker);
  spdlog::warn("event=worker_evicted worker={} contributions_dropped={}", worker, dropped);
}

void RunObserver::OnWorkerReadmitted(const std::string& worker) {
  spdlog::info("event=worker_readmitted worker={}", worker);
}

void RunObserver::OnProgress(const std::string& worker, const v1::WorkerProgress& progress) {
  metrics_.SetWorker(worker, progress, UnixSeconds());
  history_.AddProgress(worker, progress);
}

void RunObserver::OnEvaluation(const v1::Evaluation& evaluation) {
  metrics_.evaluation_loss.Set(evaluation.loss());
  metrics_.evaluation_version.Set(static_cast<double>(evaluation.version()));
  history_.AddEvaluation(evaluation);
  spdlog::info("event=evaluation version={} loss={:.4f} tokens={} worker={}", evaluation.version(), evaluation.loss(),
               evaluation.tokens(), evaluation.worker_id());
}

void RunObserver::OnContribution(const ContributionId& id, Verdict verdict, const std::string& reason) {
  if (verdict == Verdict::kWanted) return;
  const size_t index = static_cast<size_t>(verdict) - 1;
  metrics_.contributions[index]->Increment();
  const auto level = verdict == Verdict::kRefused ? spdlog::level::warn : spdlog::level::debug;
  spdlog::log(level, "event=contribution verdict={} worker={} fragment={} round={} reason={}", kVerdictNames[index],
              id.worker, id.fragment, id.round, Quoted(reason));
}

void RunObserver::OnConfigurationChanged(const Digest& was, const Digest& is) {
  spdlog::warn("event=configuration_changed was={} is={}", was.Hex(), is.Hex());
}

void RunObserver::OnChunkReceived(uint64_t payload_bytes) {
  metrics_.chunks_accepted.Increment();
  metrics_.received_bytes.Increment(static_cast<double>(payload_bytes));
}

void RunObserver::OnRoundWaiting(int fragment, int64_t round, const std::string& reason) {
  spdlog::debug("event=round_waiting fragment={} round={} reason={}", fragment, round, Quoted(reason));
}

void RunObserver::OnOldestRound(const std::optional<OldestRound>& oldest) {
  metrics_.round_oldest_open.Set(oldest ? static_cast<double>(oldest->round) : -1);
  metrics_.round_oldest_opened_timestamp_seconds.Set(
      oldest ? UnixSeconds() - absl::ToDoubleSeconds(oldest->open_for) : 0);
  metrics_.round_quorum_workers.Set(oldest ? oldest->quorum : 0);
  metrics_.round_present_workers.Set(oldest ? oldest->present : 0);
  metrics_.round_grace_window_seconds.Set(oldest ? absl::ToDoubleSeconds(oldest->grace_window) : 0);
}

void RunObserver::OnStaged(uint64_t bytes) { metrics_.staged_bytes.Set(static_cast<double>(bytes)); }

void RunObserver::OnMerged(int fragment, int64_t round, absl::Duration took, double norm) {
  metrics_.merge_duration_seconds.Observe(absl::ToDoubleSeconds(took));
  metrics_.SetAverageNorm(fragment, norm);
  spdlog::debug("event=round_merged fragment={} round={} seconds={:.3f} norm={:.6g}", fragment, round,
                absl::ToDoubleSeconds(took), norm);
}

void RunObserver::OnCommitted(int fragment, int64_t round, absl::Duration since_opened, int merged, int dropped,
                              const std::string& reason) {
  metrics_.fragment_rounds.Increment();
  metrics_.round_duration_seconds.Observe(absl::ToDoubleSeconds(since_opened));
  newest_committed_ = std::max(newest_committed_, round);
  metrics_.round_newest_committed.Set(static_cast<double>(newest_committed_));
  history_.AddCommit(fragment, round, clock_.Now());
  spdlog::info("event=round_committed fragment={} round={} merged={} dropped={} seconds={:.3f} reason={}", fragment,
               round, merged, dropped, absl::ToDoubleSeconds(since_opened), Quoted(reason));
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
  spdlog::info("event=snapshot version={} seconds={:.3f}", version, absl::ToDoubleSeconds(took));
}

void RunObserver::OnCheckpoint(int64_t version, const std::string& path, absl::Duration took) {
  metrics_.checkpoints_written.Increment();
  metrics_.checkpoint_write_duration_seconds.Observe(absl::ToDoubleSeconds(took));
  metrics_.checkpoint_last_success_timestamp_seconds.Set(UnixSeconds());
  spdlog::info("event=checkpoint version={} path={} seconds={:.3f}", version, Quoted(path),
               absl::ToDoubleSeconds(took));
}

void RunObserver::OnCheckpointFailed(const absl::Status& status) {
  metrics_.checkpoints_failed.Increment();
  spdlog::error("event=checkpoint_failed reason={}", Quoted(status.ToString()));
}

void RunObserver::OnPaused(absl::Duration duration) {
  spdlog::warn("event=paused seconds={:.3f} reason=\"the process did not run; leases do not count that time\"",
               absl::ToDoubleSeconds(duration));
}

void RunObserver::OnStartAgain(const std::string& reason) {
  spdlog::warn("event=consensus_replaced reason={}", Quoted(reason));
  OnHold(HoldCause::kFolderBehind, "");
  ends_.start_again();
}

void RunObserver::OnFatal(const absl::Status& status) {
  spdlog::error("event=fatal reason={}", Quoted(status.ToString()));
  ends_.fatal(status);
}

void RunObserver::OnRunFinished() {
  spdlog::info("event=run_finished");
  ends_.finished();
}

}  // namespace diloco
