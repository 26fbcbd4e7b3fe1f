// The outer loop in SyncCore: what each fragment's next stop may apply, and what is staged for it.
#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "worker/sync/sync_core.h"

namespace diloco {

// Before training a worker takes all there is, and after the last stop too.
int64_t SyncCore::Allowed(int fragment) const {
  const int64_t received = fragments_[static_cast<size_t>(fragment)].received();
  const int64_t round = stops_[static_cast<size_t>(fragment)];
  if (round == kBeforeTraining || round == kNoRound) {
    return received;
  }
  return std::min(received, schedule_.Plan(round, received).wanted);
}

int64_t SyncCore::Published() const {
  const auto oldest = std::min_element(fragments_.begin(), fragments_.end(),
                                       [](const auto& a, const auto& b) { return a.received() < b.received(); });
  return oldest == fragments_.end() ? 0 : oldest->received();
}

std::optional<int64_t> SyncCore::CommonVersion() const {
  for (const FragmentSync& fragment : fragments_) {
    if (fragment.version() != fragments_.front().version()) {
      return std::nullopt;
    }
  }
  return fragments_.empty() ? std::nullopt : std::optional<int64_t>(fragments_.front().version());
}

// Fragments advance version by version together, so that every version that all reach is seen.
absl::Status SyncCore::ApplyAllowed() {
  while (true) {
    int next = -1;
    for (size_t f = 0; f < fragments_.size(); ++f) {
      const bool allowed = fragments_[f].version() < Allowed(static_cast<int>(f));
      if (allowed && (next < 0 || fragments_[f].version() < fragments_[static_cast<size_t>(next)].version())) {
        next = static_cast<int>(f);
      }
    }
    if (next < 0) {
      break;
    }
    DILOCO_RETURN_IF_ERROR(fragments_[static_cast<size_t>(next)].ApplyNext());
    Announce(next);
    MaybeCopyConsensus(false);
  }
  PublishStops();
  TellObserver();
  return MaybeFinish();
}

// Once it is staged: whoever hears of a version finds it.
void SyncCore::TellObserver() {
  for (const auto& [fragment, version, digest] : std::exchange(announcements_, {})) {
    options_.on_consensus(fragment, version, digest);
  }
}

void SyncCore::Announce(int fragment) {
  unstaged_.insert(fragment);
  if (options_.on_consensus) {
    const FragmentSync& changed = fragments_[static_cast<size_t>(fragment)];
    announcements_.push_back({fragment, changed.version(), changed.digest()});
  }
}

void SyncCore::MaybeCopyConsensus(bool at_end) {
  const std::optional<int64_t> version = CommonVersion();
  if (!exchange_->evaluator() || !version || *version <= copied_version_) {
    return;
  }
  const int64_t every = settings_.newest().eval.every;
  const bool crossed = every > 0 && *version / every > copied_version_ / every;
  if (!crossed && !at_end) {
    return;
  }
  copied_version_ = *version;
  auto copy = std::make_shared<ConsensusCopy>();
  copy->version = *version;
  for (const FragmentSync& fragment : fragments_) {
    const absl::Span<const float> parameters = fragment.consensus().parameters();
    copy->parameters.insert(copy->parameters.end(), parameters.begin(), parameters.end());
  }
  exchange_->PublishConsensusCopy(std::move(copy));
}

void SyncCore::PublishStops() {
  for (const int f : std::exchange(unstaged_, {})) {
    const FragmentSync& fragment = fragments_[static_cast<size_t>(f)];
    const int64_t round = stops_[static_cast<size_t>(f)];
    if (round == kNoRound) {
      continue;
    }
    FragmentOuter::Staged staged;
    if (round == kBeforeTraining) {
      staged = {.base = fragment.LookAhead(), .version = fragment.version()};
    } else {
      staged = fragment.Stage();
    }
    exchange_->Publish(f, {.round = round,
                           .staged = std::make_shared<const FragmentOuter::Staged>(std::move(staged)),
                           .published = fragment.received()});
  }
}

absl::Status SyncCore::MaybeFinish() {
  const bool training = std::any_of(stops_.begin(), stops_.end(), [](int64_t round) { return round != kNoRound; });
  const bool drained = stopped_ && store_.empty() && abstentions_.empty();
  if (finished_ || training || (!end_ && !drained)) {
    return absl::OkStatus();
  }
  for (size_t f = 0; end_ && f < fragments_.size(); ++f) {
    DILOCO_RETURN_IF_ERROR(
        fragments_[f].CheckFinal(Digest::FromBytes(end_->consensus_digests(static_cast<int>(f)).value())));
  }
  finished_ = true;
  MaybeCopyConsensus(end_.has_value());
  exchange_->PublishEnd();
  return absl::OkStatus();
}

}  // namespace diloco
