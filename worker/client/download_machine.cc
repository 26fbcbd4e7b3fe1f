#include "worker/client/download_machine.h"

#include <utility>

#include "common/base/check.h"

namespace diloco {

DownloadMachine::DownloadMachine(const Options& options)
    : options_(options),
      backoff_(options.backoff),
      need_snapshot_(options.next_rounds.empty()),
      next_rounds_(options.next_rounds) {
  next_rounds_.resize(static_cast<size_t>(options.fragments));
}

std::vector<DownloadEffect> DownloadMachine::Step(const DownloadEvent& event, MonotonicTime now) {
  now_ = now;
  effects_.clear();
  std::visit([this](const auto& e) { Handle(e); }, event);
  CheckTime();
  return std::exchange(effects_, {});
}

std::optional<MonotonicTime> DownloadMachine::next_wake() const {
  switch (state_) {
    case State::kWaiting:
      return retry_at_;
    case State::kFetching:
      return heard_at_ + options_.snapshot_dead_limit;
    case State::kSubscribed:  // Quiet for as long as a round lasts; keepalive finds dead connections.
    case State::kEnded:
      break;
  }
  return std::nullopt;
}

void DownloadMachine::Handle(const DownloadProgress& event) {
  if (IsCurrent(event.call)) {
    heard_at_ = now_;
    reconnects_ += std::exchange(broken_, false) ? 1 : 0;
  }
}

void DownloadMachine::Handle(const SnapshotTaken& event) {
  if (!IsCurrent(event.call)) {
    return;
  }
  DILOCO_CHECK(state_ == State::kFetching && event.next_rounds.size() == next_rounds_.size());
  next_rounds_ = event.next_rounds;
  need_snapshot_ = false;
  Subscribe();
}

void DownloadMachine::Handle(const DeltaTaken& event) {
  if (IsCurrent(event.call)) {
    next_rounds_.at(static_cast<size_t>(event.fragment)) = event.round + 1;
    backoff_.Reset();
  }
}

void DownloadMachine::Handle(const EndTaken& event) {
  if (IsCurrent(event.call)) {
    effects_.push_back(CancelDownload{call_});
    state_ = State::kEnded;
  }
}

void DownloadMachine::Handle(const ResyncAsked& event) {
  if (IsCurrent(event.call)) {
    effects_.push_back(CancelDownload{call_});
    need_snapshot_ = true;
    ++resyncs_;
    Retry();
  }
}

void DownloadMachine::Handle(const DownloadClosed& event) {
  if (!IsCurrent(event.call)) {
    return;
  }
  if (event.code == absl::StatusCode::kDataLoss) {
    effects_.push_back(CancelDownload{call_});
  }
  if (event.code == absl::StatusCode::kOutOfRange && state_ == State::kSubscribed) {
    need_snapshot_ = true;
    ++resyncs_;
  }
  broken_ = true;
  Retry();
}

void DownloadMachine::Retry() {
  state_ = State::kWaiting;
  retry_at_ = now_ + backoff_.Next();
}

void DownloadMachine::Subscribe() {
  state_ = State::kSubscribed;
  effects_.push_back(OpenSubscription{++call_, next_rounds_});
}

void DownloadMachine::CheckTime() {
  if (state_ == State::kFetching && now_ - heard_at_ >= options_.snapshot_dead_limit) {
    effects_.push_back(CancelDownload{call_});
    broken_ = true;
    Retry();
  }
  if (state_ != State::kWaiting || now_ < retry_at_) {
    return;
  }
  if (need_snapshot_) {
    state_ = State::kFetching;
    heard_at_ = now_;
    effects_.push_back(FetchSnapshot{++call_});
  } else {
    Subscribe();
  }
}

}  // namespace diloco
