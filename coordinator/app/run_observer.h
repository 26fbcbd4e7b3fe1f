// Turns what the driver tells into metrics, log lines, events, a trace and the status page's history, and remembers
// what ends the process and what holds the run. Its On... functions are the driver's thread's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/config/run_config.h"
#include "common/metrics/coordinator_metrics.h"
#include "common/trace/trace.h"
#include "coordinator/app/coordinator_trace.h"
#include "coordinator/driver/driver_observer.h"
#include "coordinator/driver/event_log.h"
#include "coordinator/page/run_history.h"
#include "coordinator/service/call_limits.h"
#include "coordinator/service/method.h"
#include "coordinator/service/refusal.h"

namespace diloco {

// Label values for CoordinatorMetrics, in the order of their enumerations; a run that is held is in no other phase.
inline constexpr const char* kRunPhaseNames[] = {"seeding", "waiting_for_workers", "training", "ended", "holding",
                                                 "paused"};
inline constexpr const char* kDiskUserNames[] = {"journal", "snapshot", "checkpoint"};
inline constexpr const char* kHoldCauseNames[] = {"disk", "folder_behind"};
// Settlements, without SETTLEMENT_UNSPECIFIED, and what was merged by a later round than its own.
inline constexpr const char* kOutcomeNames[] = {
    "merged",          "dropped_late", "dropped_refused", "dropped_out_of_order", "dropped_run_ended",
    "dropped_evicted", "merged_late"};
// Without Verdict::kWanted, which is never an answer.
inline constexpr const char* kVerdictNames[] = {"stored", "settled", "refused", "too_early"};

inline constexpr CoordinatorMetrics::LabelValues kCoordinatorLabels = {.methods = kMethodNames,
                                                                       .phases = kRunPhaseNames,
                                                                       .verdicts = kVerdictNames,
                                                                       .disk_users = kDiskUserNames,
                                                                       .hold_causes = kHoldCauseNames,
                                                                       .outcomes = kOutcomeNames,
                                                                       .refusals = kRefusalNames,
                                                                       .limits = kCallLimitNames};

// What the configuration says, for dashboards and alerts to compare with.
void ShowSettings(const RunConfig& config, CoordinatorMetrics* metrics);

class RunObserver final : public DriverObserver {
 public:
  struct Ends {
    std::function<void(const absl::Status&)> fatal;
    std::function<void()> finished;
    std::function<void()> start_again;
  };
  // `tracer` may be null; what else it is given outlives it.
  RunObserver(CoordinatorMetrics* metrics, RunHistory* history, EventLog* events, Tracer* tracer, Ends ends)
      : metrics_(*metrics), history_(*history), events_(*events), trace_(tracer), ends_(std::move(ends)) {}

  void OnEffect(const RoundEffect& effect) override;
  void OnRecovered(int64_t version, uint64_t snapshot_bytes, int64_t newest_committed) override;
  void OnPhase(RunPhase phase) override;
  void OnWorkerJoined(const std::string& worker, bool returning) override;
  void OnWorkerLost(const std::string& worker) override;
  void OnWorkerLeft(const std::string& worker) override;
  void OnWorkerDraining(const std::string& worker) override;
  void OnWorkerEvicted(const std::string& worker, int dropped) override;
  void OnWorkerReadmitted(const std::string& worker) override;
  void OnMembers(const MemberCounts& counts) override;
  void OnProgress(const std::string& worker, const v1::WorkerProgress& progress) override;
  void OnEvaluation(const v1::Evaluation& evaluation) override;
  void OnContribution(const ContributionId& id, Verdict verdict, const std::string& reason) override;
  void OnConfigurationChanged(const Digest& was, const Digest& is) override;
  void OnChunkReceived(const ContributionId& id, uint64_t payload_bytes) override;
  void OnRoundWaiting(int fragment, int64_t round, const std::string& reason) override;
  void OnOldestRound(const std::optional<OldestRound>& oldest) override;
  void OnStaged(uint64_t bytes) override;
  void OnMerged(int fragment, int64_t round, absl::Duration took, double norm) override;
  void OnCommitted(int fragment, int64_t round, absl::Duration since_opened, int merged, int dropped,
                   const std::string& reason) override;
  void OnSettled(v1::Settlement settlement, bool late) override;
  void OnRoundCommitted(const v1::RoundSummary& round) override;
  void OnPublished(uint64_t payload_bytes, int subscribers) override;
  void OnJournaled(absl::Duration took) override;
  void OnJournalSize(uint64_t bytes) override;
  void OnSnapshot(int64_t version, absl::Duration took, uint64_t bytes) override;
  void OnCheckpoint(int64_t version, const std::string& path, absl::Duration took) override;
  void OnCheckpointFailed(const absl::Status& status) override;
  void OnPaused(absl::Duration duration) override;
  void OnDiskRefused(DiskUser user, const std::string& sentence) override;
  void OnHold(HoldCause cause, const std::string& reason) override;
  void OnSettings(const RunConfig& config) override { ShowSettings(config, &metrics_); }
  void OnRunPaused() override;
  void OnRunResumed() override;
  void OnRunChanged(const std::vector<RunChange>& changes) override;
  void OnRunStopped(int64_t rounds) override;
  void OnStartAgain(const std::string& reason) override;
  void OnFatal(const absl::Status& status) override;
  void OnRunFinished() override;

  // What keeps the run from going on, such as "holding: the disk is full" or "paused by an operator"; empty: nothing.
  // The process is ready all the same: whoever mends it needs its calls. Thread-safe.
  std::string amiss() const;

 private:
  void ShowPhase();
  void Note(v1::EventKind kind, const std::string& text, const std::string& worker = "",
            std::optional<int64_t> version = std::nullopt);

  const SteadyClock clock_;
  CoordinatorMetrics& metrics_;
  RunHistory& history_;
  EventLog& events_;
  CoordinatorTrace trace_;
  const Ends ends_;
  int64_t newest_committed_ = -1;
  RunPhase phase_ = RunPhase::kSeeding;
  mutable Mutex mutex_;
  std::string hold_ ABSL_GUARDED_BY(mutex_);
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace diloco
