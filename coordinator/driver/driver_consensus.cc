// The consensus: applied, snapshot and checkpointed, one at a time. Each of these has the arrays to itself, so that
// what is written is one version of all fragments.
#include <algorithm>
#include <utility>

#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "coordinator/driver/driver_impl.h"
#include "coordinator/driver/thread_pool.h"
#include "coordinator/driver/wire.h"

namespace diloco {

// Starts the next piece of work, if there is one and nothing else has the arrays. Writes come before the next round, so
// that they happen at the version that asked for them.
void Driver::Impl::AdvanceConsensus() {
  if (halted() || run_ == nullptr || !run_->keeper.seeded() || run_->keeper.busy()) {
    return;
  }
  if (SnapshotIsDue()) {
    StartSnapshot();
  } else if (!save_replies_.empty() || (end_ && !final_checkpoint_saved_ && checkpoint_retry_.Due(Now()))) {
    StartCheckpoint();
  } else if (run_->keeper.HasWholeRound()) {
    StartApply();
  } else if (pending_end_ && run_->keeper.version() == machine_.OldestOpenRound() &&
             snapshot_->header.version() == run_->keeper.version()) {
    PersistEndRecord();
  }
}

void Driver::Impl::StartApply() {
  Submit(
      world_.pool,
      [arrays = run_->keeper.Begin(), round = run_->keeper.NextRound(), codec = downlink_,
       pool = world_.pool]() -> absl::StatusOr<std::vector<Digest>> {
        const ParallelFor parallel_for = ParallelForOn(pool);
        if (const absl::Status status = ApplyRound(round, *codec, parallel_for, arrays.get()); !status.ok()) {
          return status;
        }
        return arrays->ComputeDigests(parallel_for);
      },
      [this](absl::StatusOr<std::vector<Digest>> digests) {
        if (!digests.ok()) {
          Fail(digests.status());
          return;
        }
        run_->keeper.FinishApply(*std::move(digests));
        HoldForSnapshot();
        if (run_->residuals) {
          run_->residuals->DropBefore(run_->keeper.version());
        }
        AdvanceConsensus();
      });
}

bool Driver::Impl::SnapshotIsDue() const {
  const int64_t version = run_->keeper.version();
  if (snapshot_ && snapshot_->header.version() == version) {
    return false;
  }
  if (snapshot_retry_.waiting()) {
    return snapshot_retry_.Due(Now());
  }
  const bool last = pending_end_ && version == machine_.OldestOpenRound();
  return version % Config().rounds.snapshot_every == 0 || last || NewestSnapshotIsTooOld();
}

// Global deltas since then are in memory.
bool Driver::Impl::NewestSnapshotIsTooOld() const {
  return snapshot_ && run_->keeper.version() - snapshot_->header.version() >= kMaxRoundsWithoutSnapshot;
}

bool Driver::Impl::RoundsWaitForSnapshot() const { return snapshot_retry_.waiting() && NewestSnapshotIsTooOld(); }

void Driver::Impl::HoldForSnapshot() {
  if (RoundsWaitForSnapshot()) {
    machine_.Hold(HeldBy::kOverdueSnapshot);
  }
}

v1::SnapshotRecord Driver::Impl::SnapshotHeaderNow() const {
  const ConsensusKeeper& keeper = run_->keeper;
  v1::SnapshotRecord header;
  *header.mutable_run() = run_->record;
  header.set_version(keeper.version());
  for (const Digest& digest : keeper.digests()) {
    *header.add_consensus_digests() = DigestToProto(digest);
  }
  for (const auto& [worker, info] : members_) {
    *header.add_members() = MemberRecordOf(worker, info);
  }
  for (const auto& [worker, rounds] : keeper.marks()) {
    v1::SettledMarks* marks = header.add_settled_marks();
    marks->set_worker_id(worker);
    marks->mutable_rounds()->Assign(rounds.begin(), rounds.end());
  }
  for (auto it = evaluations_.rbegin(); it != evaluations_.rend(); ++it) {
    *header.add_evaluations() = *it;
  }
  if (keeper.scalars()) {
    *header.mutable_scalars() = *keeper.scalars();
  }
  return header;
}

// Everything that was submitted to the store before this is in the header or in `newer`, and what is submitted later
// goes into the new journal: the store works in order. A snapshot that the disk refuses is overdue from then on, and is
// made of whatever version the consensus has when the disk is asked again.
void Driver::Impl::StartSnapshot() {
  SubmitSnapshot(SnapshotHeaderNow(), /*waits=*/false,
                 [this, started = Now()](const absl::Status& status, const Store::SnapshotFile& file) {
                   if (status.ok()) {
                     FinishSnapshot(file, started);
                   } else {
                     snapshot_retry_.Refused(status, Now());
                     ReportRefusal(DiskUser::kSnapshot, snapshot_retry_);
                     HoldForSnapshot();
                   }
                   AdvanceConsensus();
                 });
}

void Driver::Impl::SubmitSnapshot(v1::SnapshotRecord header, bool waits, SnapshotDone done) {
  std::erase_if(journaled_, [&header](const auto& delta) { return delta->round < header.version(); });
  const auto arrays = run_->keeper.Begin();
  header.set_consensus_bytes(arrays->SizeBytes());
  std::vector<Residual> residuals;
  if (run_->residuals) {
    residuals = run_->residuals->At(header.version());
    header.set_residual_bytes(static_cast<uint64_t>(run_->layout->element_count()) * sizeof(float));
  }
  const auto written = std::make_shared<Store::SnapshotFile>();
  SubmitStoreWork(
      {.run = [store = world_.store, arrays, residuals, header, newer = journaled_, written]() -> absl::Status {
         std::vector<absl::Span<const float>> raw = arrays->InSnapshotOrder();
         for (const Residual& residual : residuals) {
           raw.push_back(*residual);
         }
         DILOCO_RETURN_IF_ERROR(store->WriteSnapshot(header, raw, newer));
         DILOCO_ASSIGN_OR_RETURN(*written, store->NewestSnapshot());
         return absl::OkStatus();
       },
       .done =
           [this, written, done = std::move(done)](const absl::Status& status) {
             run_->keeper.FinishRead();
             done(status, *written);
           },
       .waits = waits});
}

// Readers may be about to ask for the snapshot that is the newest until now. One that reads for longer than a snapshot
// stays the newest must find what follows its own all the same, or it would never catch up.
int64_t Driver::Impl::RetainFrom() {
  const int64_t version = snapshot_->header.version();
  std::erase_if(snapshot_readers_, [&](const auto& reader) { return reader.second < version - kMaxCatchUpRounds; });
  int64_t oldest = version;
  for (const auto& [worker, reading] : snapshot_readers_) {
    oldest = std::min(oldest, reading);
  }
  return oldest;
}

void Driver::Impl::FinishSnapshot(const Store::SnapshotFile& file, MonotonicTime started) {
  const bool held = RoundsWaitForSnapshot();
  snapshot_retry_.Taken();
  if (snapshot_) {
    run_->log.DropBefore(RetainFrom());
    run_->rounds.DropDetailsBefore(snapshot_->header.version());
  }
  snapshot_ = file;
  if (held) {
    machine_.Release(HeldBy::kOverdueSnapshot);
    Step(TimePassed{});
  }
  world_.observer->OnSnapshot(file.header.version(), Now() - started,
                              file.header.consensus_bytes() + file.header.residual_bytes());
  if (seed_pending_) {
    seed_pending_ = false;
    Step(RunSeeded{});
    v1::SeedResponse response;
    response.set_run_id(options_.config.run.id);
    *response.mutable_consensus_digests() = file.header.consensus_digests();
    for (const PendingReply<v1::SeedResponse>& reply : std::exchange(seed_replies_, {})) {
      reply(response);
    }
  }
}

void Driver::Impl::StartCheckpoint() {
  struct Work {
    std::shared_ptr<const Layout> layout;
    std::shared_ptr<const ConsensusArrays> arrays;
    ConsensusCheckpoint content;
  };
  const RunSettings settings = DurableSettings();
  Work work{.layout = run_->layout, .arrays = run_->keeper.Begin(), .content = {}};
  work.content = {.run_id = options_.config.run.id,
                  .config_yaml = EffectiveYaml(options_.config_yaml, settings),
                  .config_digest = ConfigDigest(settings.newest()).Hex(),
                  .layout = work.layout.get(),
                  .arrays = work.arrays.get(),
                  .generation = run_->record.generation(),
                  .version = run_->keeper.version()};
  Submit(
      world_.pool,  // Not the store's: no commit waits for it.
      [work, files = world_.files, folder = options_.checkpoint_folder] {
        absl::StatusOr<SavedCheckpoint> saved = WriteCheckpoint(files, folder, work.content);
        return saved.ok() ? saved : WithFreeBytes(files, folder, saved.status());
      },
      [this, started = Now()](const absl::StatusOr<SavedCheckpoint>& saved) {
        run_->keeper.FinishRead();
        if (saved.ok()) {
          checkpoint_path_ = saved->path;
          checkpoint_version_ = saved->version;
          world_.observer->OnCheckpoint(saved->version, saved->path, Now() - started);
        } else {
          world_.observer->OnCheckpointFailed(saved.status());
        }
        for (const PendingReply<v1::SaveCheckpointResponse>& reply : std::exchange(save_replies_, {})) {
          if (!saved.ok()) {
            reply(saved.status());
            continue;
          }
          v1::SaveCheckpointResponse response;
          response.set_run_id(options_.config.run.id);
          response.set_path(saved->path);
          response.set_version(saved->version);
          response.set_size_bytes(saved->size_bytes);
          reply(std::move(response));
        }
        if (end_ && !saved.ok()) {
          // Without its final checkpoint the run is not done.
          if (!DiskRefused(saved.status())) {
            Fail(saved.status());
            return;
          }
          checkpoint_retry_.Refused(saved.status(), Now());
          ReportRefusal(DiskUser::kCheckpoint, checkpoint_retry_);
        } else if (end_) {
          checkpoint_retry_.Taken();
          final_checkpoint_saved_ = saved->version == end_->rounds();
        }
        AdvanceConsensus();
      });
}

}  // namespace diloco
