#include "worker/sync/exchange.h"

#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"

namespace diloco {

Exchange::Exchange(Options options, const Clock* clock)
    : options_(std::move(options)), clock_(clock), heard_at_(clock->Now()) {}

absl::Status Exchange::CheckLocked() const {
  if (options_.interrupt != nullptr && options_.interrupt->load(std::memory_order_relaxed)) {
    return absl::CancelledError("interrupted");
  }
  return failure_;
}

absl::Status Exchange::Check() const {
  MutexLock lock(&mutex_);
  return CheckLocked();
}

absl::Status Exchange::CheckHope() {
  MutexLock lock(&mutex_);
  return CheckHopeLocked();
}

absl::Status Exchange::CheckHopeLocked() {
  DILOCO_RETURN_IF_ERROR(CheckLocked());
  if (clock_->Now() - heard_at_ >= options_.give_up_after) {
    failure_ = absl::UnavailableError(
        absl::StrFormat("no word from the coordinator at %s for %s; check that it runs and that the network carries it",
                        options_.coordinator, absl::FormatDuration(options_.give_up_after)));
  }
  return failure_;
}

void Exchange::WaitALittle() { changed_.WaitUntil(&mutex_, ToSteady(clock_->Now() + kWaitSlice)); }

const StopNeed* Exchange::MissingLocked(absl::Span<const StopNeed> needs) const {
  for (const StopNeed& need : needs) {
    const auto found = stops_.find(need.fragment);
    if (found == stops_.end() || found->second.round != need.round || found->second.staged->version < need.required) {
      return &need;
    }
  }
  return nullptr;
}

absl::StatusOr<std::optional<std::vector<StagedStop>>> Exchange::TryTake(absl::Span<const StopNeed> needs) {
  MutexLock lock(&mutex_);
  if (MissingLocked(needs) != nullptr) {
    DILOCO_RETURN_IF_ERROR(CheckHopeLocked());
    return std::nullopt;
  }
  DILOCO_RETURN_IF_ERROR(CheckLocked());
  std::vector<StagedStop> stops;
  for (const StopNeed& need : needs) stops.push_back(stops_.at(need.fragment));
  return stops;
}

absl::Status Exchange::Await(absl::Span<const StopNeed> needs) {
  MutexLock lock(&mutex_);
  bool told = false;
  while (const StopNeed* missing = settings_ == nullptr ? MissingLocked(needs) : nullptr) {
    DILOCO_RETURN_IF_ERROR(CheckHopeLocked());
    if (!std::exchange(told, true) && missing->round != kBeforeTraining && options_.on_wait) {
      options_.on_wait(missing->round);
    }
    WaitALittle();
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Exchange::Ended() {
  MutexLock lock(&mutex_);
  if (!ended_) DILOCO_RETURN_IF_ERROR(CheckHopeLocked());
  return ended_;
}

absl::Status Exchange::AwaitEnd() {
  MutexLock lock(&mutex_);
  while (!ended_ && settings_ == nullptr) {
    DILOCO_RETURN_IF_ERROR(CheckHopeLocked());
    WaitALittle();
  }
  return absl::OkStatus();
}

std::shared_ptr<const ConsensusCopy> Exchange::TakeConsensusCopy() {
  MutexLock lock(&mutex_);
  return std::exchange(copy_, nullptr);
}

std::shared_ptr<const RunSettings> Exchange::TakeSettings() {
  MutexLock lock(&mutex_);
  return std::exchange(settings_, nullptr);
}

void Exchange::PublishSettings(std::shared_ptr<const RunSettings> settings) {
  MutexLock lock(&mutex_);
  settings_ = std::move(settings);
  changed_.NotifyAll();
}

void Exchange::Publish(int fragment, StagedStop stop) {
  MutexLock lock(&mutex_);
  stops_[fragment] = std::move(stop);
  changed_.NotifyAll();
}

void Exchange::PublishConsensusCopy(std::shared_ptr<const ConsensusCopy> copy) {
  MutexLock lock(&mutex_);
  copy_ = std::move(copy);
}

void Exchange::PublishEnd() {
  MutexLock lock(&mutex_);
  ended_ = true;
  changed_.NotifyAll();
}

void Exchange::Fail(absl::Status status) {
  MutexLock lock(&mutex_);
  failure_.Update(status);
  broken_down_ = true;
  changed_.NotifyAll();
}

bool Exchange::BrokenDown() const {
  MutexLock lock(&mutex_);
  return broken_down_;
}

void Exchange::NoteContact() {
  MutexLock lock(&mutex_);
  heard_at_ = clock_->Now();
}

}  // namespace diloco
