// The store's work, one piece after another, and the hold: what a disk that is full or read-only makes of a run.
//
// Records wait for the disk, and everything behind them with them, so that the journal keeps its order and nothing is
// published or answered before it is durable. A snapshot does not wait: rounds go on without it while the journal can
// grow, kMaxRoundsWithoutSnapshot of them. Nothing else stops: contributions are staged, heartbeats heard, questions
// answered.
#include <utility>

#include "coordinator/driver/driver_impl.h"
#include "coordinator/driver/wire.h"

namespace diloco {

void Driver::Impl::SubmitStoreWork(StoreWork work) {
  if (halted()) {
    return;
  }
  if (!work.waits && store_retry_.waiting()) {
    work.done(store_retry_.why());
    return;
  }
  store_work_.push_back(std::move(work));
  StartStoreWork();
}

void Driver::Impl::StartStoreWork() {
  if (store_busy_ || store_work_.empty() || !store_retry_.Due(Now())) {
    return;
  }
  store_busy_ = true;
  Submit(world_.disk, store_work_.front().run, [this](const absl::Status& status) { FinishStoreWork(status); });
}

void Driver::Impl::FinishStoreWork(const absl::Status& status) {
  store_busy_ = false;
  world_.observer->OnJournalSize(world_.store->journal_bytes());  // Nobody else uses the store now.
  const bool refused = !status.ok() && StoreErrorOf(status) != StoreError::kBroken;
  if (!status.ok() && !refused) {
    Fail(status);
    return;
  }
  if (refused && store_work_.front().waits) {
    store_retry_.Refused(status, Now());
    ReportRefusal(DiskUser::kJournal, store_retry_);
    std::deque<StoreWork> queued;
    std::swap(queued, store_work_);
    for (StoreWork& work : queued) {
      if (work.waits) {
        store_work_.push_back(std::move(work));
      } else {
        work.done(status);
      }
    }
    return;
  }
  if (!refused) {
    hold_stale_ |= store_retry_.waiting();
    store_retry_.Taken();
  }
  const StoreWork work = std::move(store_work_.front());
  store_work_.pop_front();
  StartStoreWork();
  work.done(status);
}

void Driver::Impl::TryDiskAgain() {
  StartStoreWork();
  if (snapshot_retry_.waiting() || checkpoint_retry_.waiting()) {
    AdvanceConsensus();
  }
}

// What is due already is under way, or begins when that ends.
std::optional<MonotonicTime> Driver::Impl::NextDiskTry() const {
  std::optional<MonotonicTime> next;
  for (const DiskRetry* retry : {&store_retry_, &snapshot_retry_, &checkpoint_retry_}) {
    if (!retry->Due(Now()) && (!next || retry->at() < *next)) {
      next = retry->at();
    }
  }
  return next;
}

HoldCause Driver::Impl::CauseOfHold() const {
  return FolderIsBehind() && !store_retry_.waiting() ? HoldCause::kFolderBehind : HoldCause::kDisk;
}

std::optional<std::string> Driver::Impl::HoldReason() const {
  if (FolderIsBehind() && !store_retry_.waiting()) {
    return BehindReason();
  }
  if (store_retry_.waiting()) {
    return store_retry_.Sentence(Now());
  }
  if (checkpoint_retry_.waiting()) {
    return checkpoint_retry_.Sentence(Now());
  }
  // A run neither begins nor ends without its snapshot, nor goes on for ever.
  if (snapshot_retry_.waiting() && (seed_pending_ || pending_end_ || RoundsWaitForSnapshot())) {
    return snapshot_retry_.Sentence(Now());
  }
  return std::nullopt;
}

v1::RunState Driver::Impl::State() const {
  if (HoldReason()) {
    return v1::RUN_STATE_HOLDING;
  }
  if (IsPaused()) {
    return v1::RUN_STATE_PAUSED;
  }
  return RunStateToProto(start_durable_ ? machine_.phase() : RunPhase::kWaitingForWorkers);
}

std::string Driver::Impl::Reason() const {
  if (const std::optional<std::string> hold = HoldReason()) {
    return *hold;
  }
  return IsPaused() ? "paused by an operator" : machine_.Reason(Now());
}

void Driver::Impl::ReportRefusal(DiskUser user, const DiskRetry& retry) {
  world_.observer->OnDiskRefused(user, retry.Sentence(Now()));
  hold_stale_ = true;
}

void Driver::Impl::ReportHold() {
  const std::optional<std::string> reason = HoldReason();
  if (reason.has_value() != held_ || (held_ && hold_stale_)) {
    world_.observer->OnHold(CauseOfHold(), reason.value_or(""));
    directives_stale_ = true;
  }
  held_ = reason.has_value();
  hold_stale_ = false;
}

}  // namespace diloco
