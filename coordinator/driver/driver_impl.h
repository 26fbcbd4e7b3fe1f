// The driver's state and what it does, by theme: one class, because one thread owns all of it. Everything below runs
// on that thread; only what Submit hands to an executor does not, and that captures no reference to the driver.
//
//   driver.cc            public methods, as tasks of the mailbox
//   driver_recovery.cc   start from what the store recovered
//   driver_loop.cc       loop, effects, executors, failure
//   driver_disk.cc       the store's work, and the hold when the disk refuses it
//   driver_workers.cc    join, seed, sessions
//   driver_operator.cc   drain, evict, admit
//   driver_steering.cc   pause, resume, stop, extend, set
//   driver_uploads.cc    contributions on their way in
//   driver_rounds.cc     merge, commit, publication, end
//   driver_consensus.cc  consensus, snapshots, checkpoints
//   driver_views.cc      status, subscriptions, snapshots for readers
//   driver_inspect.cc    one worker in full, checkpoints on the disk
//   driver_lost_disk.cc  workers that hold more than the data folder
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/codec/codec.h"
#include "common/config/run_settings.h"
#include "common/outer/outer_optimizer.h"
#include "coordinator/driver/checkpoint.h"
#include "coordinator/driver/consensus_keeper.h"
#include "coordinator/driver/delta_log.h"
#include "coordinator/driver/disk_retry.h"
#include "coordinator/driver/driver.h"
#include "coordinator/driver/mailbox.h"
#include "coordinator/driver/pending_reply.h"
#include "coordinator/driver/publication.h"
#include "coordinator/driver/recovery.h"
#include "coordinator/driver/residual_keeper.h"
#include "coordinator/driver/round_log.h"
#include "coordinator/driver/session_table.h"
#include "coordinator/driver/staging.h"

namespace diloco {

class Driver::Impl {
 public:
  Impl(DriverOptions options, DriverWorld world);
  ~Impl();

  // Before the driver runs: takes over what the store recovered.
  absl::Status Recover(RecoveredState recovered);

  void Run();
  void RunUntilIdle(std::optional<MonotonicTime> due);
  // On the world's clock.
  MonotonicTime NextWakeUp() const { return NextDue() + paused_; }
  void Shutdown();
  Mailbox& mailbox() { return *mailbox_; }
  SessionToken NextToken() { return next_token_.fetch_add(1); }
  // Nothing is begun any more.
  bool halted() const { return stopping_ || failed_; }

  // Requests.
  void DescribeRun(const v1::DescribeRunRequest& request, const PendingReply<v1::DescribeRunResponse>& reply);
  void Join(const v1::JoinRequest& request, const PendingReply<v1::JoinResponse>& reply);
  void OpenSession(SessionToken token, SessionSink sink) { sessions_.Open(token, std::move(sink)); }
  void SessionMessage(SessionToken token, const v1::SessionRequest& request);
  void CloseSession(SessionToken token) { sessions_.Forget(token); }
  void Upload(const v1::UploadRequest& request, const PendingReply<v1::UploadResponse>& reply);
  void Subscribe(const v1::SubscribeRequest& request, const std::shared_ptr<DeltaQueue>& queue,
                 const PendingReply<std::monostate>& reply);
  void Unsubscribe(const std::shared_ptr<DeltaQueue>& queue);
  void OpenSnapshot(const v1::FetchSnapshotRequest& request, const PendingReply<SnapshotSource>& reply);
  void Seed(const v1::SeedRequest& first, std::string parameters, const PendingReply<v1::SeedResponse>& reply);
  void GetStatus(const v1::GetStatusRequest& request, const PendingReply<v1::GetStatusResponse>& reply);
  void ListRounds(const v1::ListRoundsRequest& request, const PendingReply<v1::ListRoundsResponse>& reply);
  void DescribeRound(const v1::DescribeRoundRequest& request, const PendingReply<v1::DescribeRoundResponse>& reply);
  void ListWorkers(const v1::ListWorkersRequest& request, const PendingReply<v1::ListWorkersResponse>& reply);
  void DescribeWorker(const v1::DescribeWorkerRequest& request, const PendingReply<v1::DescribeWorkerResponse>& reply);
  void SaveCheckpoint(const v1::SaveCheckpointRequest& request, const PendingReply<v1::SaveCheckpointResponse>& reply);
  void ListCheckpoints(const v1::ListCheckpointsRequest& request,
                       const PendingReply<v1::ListCheckpointsResponse>& reply);
  void DrainWorker(const v1::DrainWorkerRequest& request, const PendingReply<v1::DrainWorkerResponse>& reply);
  void EvictWorker(const v1::EvictWorkerRequest& request, const PendingReply<v1::EvictWorkerResponse>& reply);
  void AdmitWorker(const v1::AdmitWorkerRequest& request, const PendingReply<v1::AdmitWorkerResponse>& reply);
  void RecoverConsensus(const v1::RecoverConsensusRequest& request,
                        const PendingReply<v1::RecoverConsensusResponse>& reply);
  void PauseRun(const v1::PauseRunRequest& request, const PendingReply<v1::PauseRunResponse>& reply);
  void ResumeRun(const v1::ResumeRunRequest& request, const PendingReply<v1::ResumeRunResponse>& reply);
  void StopRun(const v1::StopRunRequest& request, const PendingReply<v1::StopRunResponse>& reply);
  void ExtendRun(const v1::ExtendRunRequest& request, const PendingReply<v1::ExtendRunResponse>& reply);
  void SetConfig(const v1::SetConfigRequest& request, const PendingReply<v1::SetConfigResponse>& reply);
  void GetConfig(const v1::GetConfigRequest& request, const PendingReply<v1::GetConfigResponse>& reply);

 private:
  // What the first join fixes for the run.
  struct LaidOutRun {
    LaidOutRun(Layout layout_in, v1::RunRecord record_in, int quorum, int64_t version)
        : layout(std::make_shared<const Layout>(std::move(layout_in))),
          record(std::move(record_in)),
          log(layout->fragment_count(), version),
          keeper(layout->fragment_count()),
          rounds(layout->fragment_count(), quorum) {}
    std::shared_ptr<const Layout> layout;
    v1::RunRecord record;
    DeltaLog log;
    ConsensusKeeper keeper;
    RoundLog rounds;
    google::protobuf::RepeatedPtrField<v1::RunChange> durable_changes;  // Of the record: what others may know.
    std::optional<ResidualKeeper> residuals;                            // With error feedback on the downlink.
  };
  struct MemberInfo {
    uint64_t incarnation = 0;
    int64_t first_round = 0;
    bool left = false;
    bool departure_durable = false;  // Its final report has been taken.
    bool draining = false;
    bool drain_durable = false;  // It is told.
    bool evicted = false;
    bool resumes = false;    // As it was admitted.
    bool suspended = false;  // It said so last.
    std::string software_version;
    std::optional<v1::WorkerProgress> progress;
  };
  struct Joining {
    std::string software_version;
    uint32_t generation = 0;  // Of what the worker will hold.
    PendingReply<v1::JoinResponse> reply;
  };
  struct CheckedSeed;
  struct GivenConsensus;
  // A merge from its start until its round is committed.
  struct MergingRound {
    MonotonicTime started;
    EncodedAverage average;
    double norm = 0;
    std::optional<RoundView> view;                // As it was when its commit was made durable.
    std::shared_ptr<const PublishedDelta> delta;  // From PersistCommit on.
  };

  // driver_recovery.cc
  absl::Status RecoverSettings(const RecoveredState& recovered, const RecoveredRun& run, v1::RunRecord* record);
  absl::Status RestoreConsensus(RecoveredRun run, const RecoveredState& recovered);

  // driver_loop.cc
  void HandleQueued(MonotonicTime wait_until);
  void Settle();
  void Step(const RoundEvent& event);
  void Fail(const absl::Status& status);
  // Nothing is begun any more; whoever waits is told to try again.
  void Halt(const absl::Status& reason);
  void CloseEverything(const absl::Status& status);
  MonotonicTime NextDue() const;
  void ReportMembers();
  void TellStartWhenDurable();
  void ReportWaiting();
  void ReportOldestRound();
  // Runs `work()` on `executor`, then `then(result)` on the driver's thread; dropped when the driver has halted.
  template <typename Work, typename Then>
  void Submit(Executor* executor, Work work, Then then);

  // driver_disk.cc
  struct StoreWork {
    std::function<absl::Status()> run;
    std::function<void(const absl::Status&)> done;
    bool waits = true;  // For a disk that refuses it. False: `done` is told of the refusal.
  };
  // After what was submitted before it. An error that is not a refusal is fatal.
  void SubmitStoreWork(StoreWork work);
  // A record: `then` once it is durable.
  template <typename Then>
  void SubmitStore(std::function<absl::Status()> work, Then then);
  void StartStoreWork();
  void FinishStoreWork(const absl::Status& status);
  void TryDiskAgain();
  std::optional<MonotonicTime> NextDiskTry() const;
  // One sentence: why the run is held; nullopt: it is not.
  std::optional<std::string> HoldReason() const;
  v1::RunState State() const;
  // One sentence: why it is in that state.
  std::string Reason() const;
  void ReportRefusal(DiskUser user, const DiskRetry& retry);
  HoldCause CauseOfHold() const;
  void ReportHold();

  // Effects.
  void Carry(const diloco::AdmitWorker& effect);
  void Carry(const RefuseWorker& effect);
  void Carry(const WorkerLost& effect);
  void Carry(const RecordDeparture& effect);
  void Carry(const RecordDrain& effect);
  void Carry(const RecordEviction& effect);
  void Carry(const RecordReadmission& effect);
  void Carry(const AnswerContribution& effect);
  void Carry(const StartMerge& effect);
  void Carry(const PersistCommit& effect);
  void Carry(const PublishGlobalDelta& effect);
  void Carry(const ReleaseContribution& effect);
  void Carry(const PersistEnd& effect);
  void Carry(const PublishEnd& effect);

  // driver_workers.cc
  absl::Status CheckRun(const std::string& run_id) const;
  absl::Status CheckAdminRun(const std::string& run_id) const;
  // A sign of life. Errors: kNotFound: another run; kAborted: not a member under this incarnation.
  absl::Status HearMember(const std::string& run_id, const std::string& worker, uint64_t incarnation);
  absl::Status CheckLayout(const v1::JoinRequest& request);
  absl::Status CheckResumePoint(const v1::JoinRequest& request) const;
  void LayOut(Layout layout, v1::RunRecord record);
  v1::MemberRecord MemberRecordOf(const std::string& worker, const MemberInfo& info) const;
  // What a directive says to everybody, and what it adds for one.
  v1::Directive CommonDirective() const;
  v1::Directive DirectiveFor(const std::string& worker, v1::Directive common) const;
  absl::Status CheckSessionMessage(const v1::SessionRequest& request) const;
  void TakeEvaluations(const v1::SessionRequest& request);
  void FinishSeed(const CheckedSeed& seed, const PendingReply<v1::SeedResponse>& reply);

  // driver_operator.cc
  static absl::Status NoSuchWorker(const std::string& worker);
  // Errors: kNotFound.
  absl::StatusOr<MemberInfo*> MemberOf(const std::string& run_id, const std::string& worker);
  template <typename Response>
  void ReplyWhenDurable(const PendingReply<Response>& reply, Response response);
  // Why an incarnation is not served: kAborted, or kPermissionDenied when its worker is evicted.
  absl::Status NotAMember(const std::string& worker) const;

  // driver_steering.cc
  // The newest value of everything.
  const RunConfig& Config() const { return settings_.newest(); }
  RoundOptions OptionsNow(int fragments) const;
  bool IsPaused() const;
  // Errors: of CheckAdminRun; kFailedPrecondition: no worker has joined, or the run has ended.
  absl::Status CheckSteers(const std::string& run_id) const;
  // `settings`, in one change for each reach, with the round that it holds from when these rounds are committed and
  // nothing older is to be changed.
  std::vector<RunChange> ChangesOf(const std::vector<Setting>& settings, const Layout& layout, int64_t committed,
                                   const google::protobuf::RepeatedPtrField<v1::RunChange>& earlier) const;
  // Puts them behind the record's. Errors, kResourceExhausted.
  absl::Status AddChanges(const std::vector<RunChange>& changes, const RunConfig& before, int64_t oldest_open,
                          v1::RunRecord* record) const;
  // Makes them part of the run, from now on. Errors: as above, and of the settings.
  absl::Status Change(const std::vector<RunChange>& changes);
  void PublishSettings(const google::protobuf::RepeatedPtrField<v1::RunChange>& durable);
  // As far as they are durable: what may be shown.
  RunSettings DurableSettings() const;
  // To be made durable.
  void EndPause();
  // Makes the run's record durable, and then known; `tell` says what happened.
  void PersistRun(const std::function<void(DriverObserver*)>& tell);

  // driver_uploads.cc
  absl::Status CheckUpload(const v1::UploadRequest& request) const;
  absl::Status CheckUploadContent(const v1::UploadRequest& request) const;
  void RefuseUpload(const ContributionId& id, uint64_t incarnation, const Digest& digest, const std::string& reason);
  void AddChunk(const v1::UploadRequest& request, const ContributionId& id,
                const PendingReply<v1::UploadResponse>& reply);
  void StartCheck(const ContributionId& id, uint64_t incarnation, const ContributionShape& shape);
  void FinishCheck(const ContributionId& id, uint64_t incarnation, const ContributionShape& shape,
                   const StagedBytes& bytes, const absl::Status& status);
  void AnswerLeftOver(const ContributionId& id);
  void DiscardIncomplete(const std::string& worker, uint64_t keep);
  v1::UploadResponse UploadAnswer(const ContributionId& id, v1::ContributionVerdict verdict,
                                  const std::string& reason) const;

  // driver_rounds.cc
  DeltaHeader HeaderOf(int fragment, int64_t round) const;
  void DropStaleStaging();
  void PersistEndRecord();

  // driver_consensus.cc
  void AdvanceConsensus();
  void StartApply();
  void StartSnapshot();
  // Of the consensus as it is, which nothing else has. `waits` as in StoreWork.
  using SnapshotDone = std::function<void(const absl::Status&, const Store::SnapshotFile&)>;
  void SubmitSnapshot(v1::SnapshotRecord header, bool waits, SnapshotDone done);
  void FinishSnapshot(const Store::SnapshotFile& file, MonotonicTime started);
  void StartCheckpoint();
  v1::SnapshotRecord SnapshotHeaderNow() const;
  bool SnapshotIsDue() const;
  bool NewestSnapshotIsTooOld() const;
  bool RoundsWaitForSnapshot() const;  // They are held, for the disk refuses the next one.
  void HoldForSnapshot();
  // The oldest round that readers of the newest snapshot, or of an earlier one, may still ask for.
  int64_t RetainFrom();

  // driver_lost_disk.cc
  // Errors: kInvalidArgument; kAborted: of an older generation; kFailedPrecondition: ahead of a run that this process
  // began itself, so that its folder lacks nothing.
  absl::Status CheckHeld(const std::string& worker, const v1::HeldConsensus& held) const;
  bool IsAhead(const v1::HeldConsensus& held) const;
  // Compares what a worker holds (no versions: nothing) with what the folder has.
  void NoteHeld(const std::string& worker, const v1::HeldConsensus& held);
  // A worker was found to hold more; from then on until the coordinator starts again.
  bool FolderIsBehind() const { return !newest_ahead_.empty(); }
  std::string BehindReason() const;
  // What a member says that it holds. Errors, kAborted: an operator has replaced it.
  absl::Status HearHeld(const std::string& worker, const v1::HeldConsensus& held);
  bool GenerationsDiffer() const;  // The folder's and those of whoever is ahead.
  std::string HeldText(const v1::HeldConsensus& held) const;
  absl::Status CheckNotEnding() const;
  // Not OK while the folder is behind: what a reader of the consensus is told.
  absl::Status CheckHandsOut() const;
  const std::string& FurthestAhead() const;
  absl::Status CheckDonor(const std::string& worker, bool force) const;
  int64_t FolderVersion() const;
  uint32_t NextGeneration() const;
  // Of the next generation: without members, but for those that may not come back, and the names that the folder's
  // global deltas settle something of.
  void StartGeneration(v1::SnapshotRecord* header) const;
  bool HasSettled(const std::string& worker) const;
  // Its process is none of the run's any more.
  v1::MemberRecord FormerMemberRecordOf(const std::string& worker, const MemberInfo& info) const;
  void AcceptFolder();
  void TakeConsensus(const v1::SeedRequest& first, std::string bytes, const PendingReply<v1::SeedResponse>& reply);
  void PersistConsensus(const GivenConsensus& given, const PendingReply<v1::SeedResponse>& reply);
  void StartAgain(const std::string& reason);

  // driver_views.cc
  v1::WorkerState StateOf(const MemberView& member) const;
  MemberCounts CountMembers() const;
  uint32_t WorkersAlive() const;
  v1::WorkerSummary SummaryOf(const MemberView& member) const;
  std::vector<RoundView> OpenRounds() const;

  // driver_inspect.cc
  v1::WorkerRound RoundOf(const RoundView& view, const std::string& worker) const;

  // Stands still while the process does: what it did not hear then was not the workers' silence.
  MonotonicTime Now() const { return world_.clock->Now() + -paused_; }

  const DriverOptions options_;
  const DriverWorld world_;
  const Codec* const uplink_;
  const Codec* const downlink_;
  const RoundingRule rounding_;
  const OuterOptimizer* const optimizer_;
  const Digest config_digest_;  // Of the file.
  const MonotonicTime started_;
  const std::shared_ptr<Mailbox> mailbox_;
  std::atomic<SessionToken> next_token_ = 1;

  RunSettings settings_;
  // Before the first join the machine has one fragment: it knows no layout, and only answers what the run waits for.
  RoundMachine machine_;
  std::unique_ptr<LaidOutRun> run_;
  SessionTable sessions_;
  Staging staging_;

  std::map<std::string, MemberInfo> members_;
  std::optional<Joining> joining_;  // Of the join that is being stepped.
  int dropped_by_eviction_ = 0;     // Likewise, of the eviction.
  std::map<ContributionId, std::vector<PendingReply<v1::UploadResponse>>> upload_replies_;
  std::map<std::pair<int, int64_t>, MergingRound> merging_;
  std::vector<std::shared_ptr<const PublishedDelta>> journaled_;  // Since the version of the newest snapshot.

  std::deque<StoreWork> store_work_;  // Its first is on the disk's thread, or waits for the disk.
  bool store_busy_ = false;
  DiskRetry store_retry_;       // Of the first of store_work_.
  DiskRetry snapshot_retry_;    // Of a snapshot that is overdue.
  DiskRetry checkpoint_retry_;  // Of the final checkpoint.
  bool held_ = false;           // As reported last.
  bool hold_stale_ = false;

  std::map<std::string, v1::HeldConsensus> ahead_;  // Workers that hold more than the data folder, now.
  std::string newest_ahead_;                        // The newest that was found, for people; empty: none ever.
  std::string donor_;                               // The one that is asked for its consensus; empty: none.

  bool seed_pending_ = false;  // Adopted; snapshot 0 is being written.
  bool seeded_here_ = false;   // Not recovered.
  Digest seed_digest_;         // Of the seeded bytes; empty: not known.
  std::vector<PendingReply<v1::SeedResponse>> seed_replies_;

  std::deque<v1::Evaluation> evaluations_;  // Newest first.
  int64_t evaluated_version_ = -1;          // Durable.

  std::optional<Store::SnapshotFile> snapshot_;      // The newest durable one.
  std::map<std::string, int64_t> snapshot_readers_;  // By worker, the version that it has not subscribed after yet.
  std::vector<PendingReply<v1::SaveCheckpointResponse>> save_replies_;
  std::optional<PersistEnd> pending_end_;
  std::optional<v1::EndRecord> end_;
  bool final_checkpoint_saved_ = false;
  std::string checkpoint_path_;  // Of the newest checkpoint; empty: none.
  int64_t checkpoint_version_ = 0;
  bool finished_ = false;

  RunPhase reported_phase_ = RunPhase::kSeeding;
  bool start_durable_ = true;  // False: the start of training waits for the disk.
  MemberCounts reported_members_;
  std::optional<OldestRound> reported_oldest_;
  uint64_t reported_staged_ = 0;
  std::map<int, RoundView> reported_waiting_;  // By fragment.
  MonotonicTime next_tick_;
  absl::Duration paused_;  // In all.
  bool directives_stale_ = false;
  uint64_t received_bytes_ = 0;
  int in_flight_ = 0;
  bool stopping_ = false;
  bool failed_ = false;
};

// ---- Templates ----

template <typename Work, typename Then>
void Driver::Impl::Submit(Executor* executor, Work work, Then then) {
  if (halted()) {
    return;
  }
  ++in_flight_;
  executor->Submit([this, mailbox = mailbox_, work = std::move(work), then = std::move(then)] {
    auto result = std::make_shared<decltype(work())>(work());
    mailbox->Post([this, then, result] {
      --in_flight_;
      if (!halted()) {
        then(std::move(*result));
      }
    });
  });
}

// The store works in order: what was submitted before is durable when this is.
template <typename Response>
void Driver::Impl::ReplyWhenDurable(const PendingReply<Response>& reply, Response response) {
  response.set_run_id(options_.config.run.id);
  SubmitStore([] { return absl::OkStatus(); }, [reply, response] { reply(response); });
}

template <typename Then>
void Driver::Impl::SubmitStore(std::function<absl::Status()> work, Then then) {
  SubmitStoreWork(
      {.run = std::move(work), .done = [this, started = Now(), then = std::move(then)](const absl::Status&) {
         world_.observer->OnJournaled(Now() - started);
         then();
       }});
}

}  // namespace diloco
