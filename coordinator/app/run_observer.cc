#include "coordinator/app/run_observer.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/codec/codec.h"
#include "common/config/run_settings_proto.h"
#include "common/log/log.h"
#include "coordinator/driver/wire.h"

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
  if (phase == RunPhase::kEnded) {
    Note(v1::EVENT_KIND_RUN_ENDED, "every round is committed", "", newest_committed_ + 1);
  }
}

// The last two names are those of what keeps a run from its phase, and a hold comes before a pause.
void RunObserver::ShowPhase() {
  const size_t paused = metrics_.run_phase.size() - 1;
  size_t current = static_cast<size_t>(phase_);
  {
    MutexLock lock(&mutex_);
    if (paused_ && phase_ != RunPhase::kEnded) current = paused;
    if (!hold_.empty()) current = paused - 1;
  }
  for (size_t i = 0; i <= paused; ++i) metrics_.run_phase[i]->Set(i == current ? 1 : 0);
}

std::string RunObserver::amiss() const {
  MutexLock lock(&mutex_);
  if (!hold_.empty()) return "holding: " + hold_;
  return paused_ ? "paused by an operator" : "";
}

void RunObserver::Note(v1::EventKind kind, const std::string& text, const std::string& worker,
                       std::optional<int64_t> version) {
  v1::Event event;
  event.set_kind(kind);
  event.set_text(BoundedReason(text));
  event.set_worker_id(worker);
  if (version) event.set_version(*version);
  events_.Add(std::move(event));
}

void RunObserver::OnDiskRefused(DiskUser user, const std::string& sentence) {
  metrics_.disk_refusals[static_cast<size_t>(user)]->Increment();
  LogWarning("disk_refused", {{"what", kDiskUserNames[static_cast<size_t>(user)]}, {"reason", sentence}});
}

void RunObserver::OnHold(HoldCause cause, const std::string& reason) {
  for (size_t i = 0; i < metrics_.run_held.size(); ++i) {
    metrics_.run_held[i]->Set(!reason.empty() && i == static_cast<size_t>(cause) ? 1 : 0);
  }
  bool was_held = false;
  {
    MutexLock lock(&mutex_);
    was_held = !std::exchange(hold_, reason).empty();
  }
  ShowPhase();
  if (reason.empty() && was_held) {
    LogInfo("released");
    Note(v1::EVENT_KIND_HOLD_ENDED, "the run is not held any more");
  } else if (!reason.empty() && !was_held) {
    LogWarning("holding", {{"reason", reason}});
    Note(v1::EVENT_KIND_HOLD_BEGAN, reason);
  }
}

void RunObserver::OnRunPaused() {
  {
    MutexLock lock(&mutex_);
    paused_ = true;
  }
  ShowPhase();
  LogWarning("run_paused");
  Note(v1::EVENT_KIND_RUN_PAUSED, "paused by an operator");
}

void RunObserver::OnRunResumed() {
  {
    MutexLock lock(&mutex_);
    paused_ = false;
  }
  ShowPhase();
  LogInfo("run_resumed");
  Note(v1::EVENT_KIND_RUN_RESUMED, "an operator lets the run go on");
}

void RunObserver::OnRunChanged(const std::vector<RunChange>& changes) {
  v1::Event event;
  event.set_kind(v1::EVENT_KIND_RUN_CHANGED);
  std::string text;
  for (const RunChange& change : changes) {
    std::string list;
    for (const auto& [key, value] : change.settings) absl::StrAppend(&list, list.empty() ? "" : ", ", key, "=", value);
    absl::StrAppend(&text, text.empty() ? "" : "; ", list, " from round ", change.from_round, " on");
    LogInfo("run_changed", {{"from_round", change.from_round}, {"settings", list}});
    *event.add_changes() = RunChangeToProto(change);
  }
  event.set_text(BoundedReason(text));
  events_.Add(std::move(event));
}

void RunObserver::OnRunStopped(int64_t rounds) {
  LogWarning("run_stopped", {{"rounds", rounds}});
  Note(v1::EVENT_KIND_RUN_STOPPED, absl::StrCat("an operator stopped the run: it ends with ", rounds, " rounds"));
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
  Note(v1::EVENT_KIND_WORKER_JOINED, returning ? "it came back" : "it joined", worker);
}

void RunObserver::OnWorkerLost(const std::string& worker) {
  metrics_.worker_losses.Increment();
  constexpr char kReason[] = "its lease ended without a word from it";
  LogWarning("worker_lost", {{"worker", worker}, {"reason", kReason}});
  Note(v1::EVENT_KIND_WORKER_LOST, kReason, worker);
}

void RunObserver::OnWorkerLeft(const std::string& worker) {
  metrics_.RemoveWorker(worker);
  LogInfo("worker_left", {{"worker", worker}});
  Note(v1::EVENT_KIND_WORKER_LEFT, "it left for good", worker);
}

void RunObserver::OnWorkerDraining(const std::string& worker) {
  LogInfo("worker_draining", {{"worker", worker}});
  Note(v1::EVENT_KIND_WORKER_DRAINING, "it is to finish its round and leave", worker);
}

void RunObserver::OnWorkerEvicted(const std::string& worker, int dropped) {
  metrics_.RemoveWorker(worker);
  LogWarning("worker_evicted", {{"worker", worker}, {"contributions_dropped", dropped}});
  Note(v1::EVENT_KIND_WORKER_EVICTED, absl::StrCat(dropped, " contributions of it are dropped"), worker);
}

void RunObserver::OnWorkerReadmitted(const std::string& worker) {
  LogInfo("worker_readmitted", {{"worker", worker}});
  Note(v1::EVENT_KIND_WORKER_ADMITTED, "it may join again", worker);
}

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
  v1::Event event;
  event.set_kind(v1::EVENT_KIND_EVALUATION);
  event.set_text(
      absl::StrFormat("held-out loss %.4f nats a token at version %d", evaluation.loss(), evaluation.version()));
  event.set_worker_id(evaluation.worker_id());
  *event.mutable_evaluation() = evaluation;
  events_.Add(std::move(event));
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

void RunObserver::OnRoundCommitted(const v1::RoundSummary& round) {
  v1::Event event;
  event.set_kind(v1::EVENT_KIND_ROUND_COMMITTED);
  event.set_text(BoundedReason(round.reason()));
  *event.mutable_round() = round;
  events_.Add(std::move(event));
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
  Note(v1::EVENT_KIND_SNAPSHOT, absl::StrCat("a snapshot of version ", version, " is durable"), "", version);
}

void RunObserver::OnCheckpoint(int64_t version, const std::string& path, absl::Duration took) {
  metrics_.checkpoints_written.Increment();
  metrics_.checkpoint_write_duration_seconds.Observe(absl::ToDoubleSeconds(took));
  metrics_.checkpoint_last_success_timestamp_seconds.Set(UnixSeconds());
  trace_.OnCheckpoint(version);
  LogInfo("checkpoint", {{"version", version}, {"path", path}, {"seconds", absl::ToDoubleSeconds(took)}});
  Note(v1::EVENT_KIND_CHECKPOINT, path, "", version);
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
