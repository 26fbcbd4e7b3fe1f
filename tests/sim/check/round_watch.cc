#include "tests/sim/check/round_watch.h"

#include <cmath>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace diloco::sim {
namespace {

// From the end of a wait until the coordinator has acted on it.
constexpr absl::Duration kActsWithin = absl::Seconds(1);
// More than are open or merging at once.
constexpr int64_t kRoundsKept = 64;
// Sentences give tenths of a second, rounded up.
constexpr absl::Duration kTenth = absl::Milliseconds(100);

// The seconds that follow `phrase` in the sentence.
std::optional<absl::Duration> SecondsAfter(const std::string& sentence, const std::string& phrase) {
  const size_t at = sentence.find(phrase);
  double seconds = 0;
  if (at == std::string::npos || std::sscanf(sentence.c_str() + at + phrase.size(), "%lf", &seconds) != 1) {
    return std::nullopt;
  }
  return absl::Milliseconds(std::llround(seconds * 1000));
}

// Whether `shown` is what a sentence says of a duration in [low, high].
bool Shows(absl::Duration shown, absl::Duration low, absl::Duration high) {
  return shown >= low && shown < high + kTenth;
}

absl::Duration ShortestWindow(const RoundsSection& rounds) { return rounds.grace_window.value_or(rounds.grace_floor); }
absl::Duration LongestWindow(const RoundsSection& rounds) { return rounds.grace_window.value_or(rounds.grace_cap); }

}  // namespace

void RoundWatch::OnStarted() {
  started_ = loop_.Now();
  held_ = paused_ = false;
  waiting_.clear();
  stored_.clear();
  closed_.clear();
}

void RoundWatch::OnHold(const std::string& reason) {
  held_ = !reason.empty();
  for (auto& [fragment, waiting] : waiting_) waiting.since = loop_.Now();
}

void RoundWatch::OnPaused(bool paused) {
  paused_ = paused;
  for (auto& [fragment, waiting] : waiting_) waiting.since = loop_.Now();
}

void RoundWatch::OnRunStopped(int64_t rounds) {
  std::erase_if(waiting_, [rounds](const auto& each) { return each.second.round >= rounds; });
}

void RoundWatch::OnClosed(int fragment, int64_t round) {
  closed_[{fragment, round}] = loop_.Now();
  waiting_.erase(fragment);
  stored_.erase({fragment, round - kRoundsKept});
  closed_.erase({fragment, round - kRoundsKept});
}

std::optional<std::string> RoundWatch::OnWaiting(int fragment, int64_t round, const std::string& reason) {
  if (absl::StartsWith(reason, "need ")) {
    waiting_.erase(fragment);
    return std::nullopt;
  }
  // What would close waits for the round before, and for a run that is held.
  const bool closes =
      absl::StrContains(reason, "; after round ") || absl::StrContains(reason, "; once the run goes on");
  const std::optional<absl::Duration> left = SecondsAfter(reason, "reached, waiting ");
  if (!closes && (!left || !Shows(*left, absl::ZeroDuration(), LongestWindow(config_.rounds)))) {
    return absl::StrFormat("fragment %d, round %d has not closed, for no reason that the configuration knows: \"%s\"",
                           fragment, round, reason);
  }
  Waiting& waiting = waiting_[fragment];
  if (waiting.reason.empty() || waiting.round != round) {
    waiting = {.round = round, .since = loop_.Now(), .stopped_before = stopped_, .reason = ""};
  }
  waiting.reason = reason;
  return std::nullopt;
}

std::optional<std::string> RoundWatch::OnCommitted(int fragment, int64_t round, const std::string& reason) const {
  const auto broken = [&](const std::string& rule) {
    return absl::StrFormat("fragment %d, round %d has closed for \"%s\": %s", fragment, round, reason, rule);
  };
  const auto closed = closed_.find({fragment, round});
  if (closed == closed_.end()) return broken("and its merge was not begun");
  if (absl::StartsWith(reason, "all ") || absl::StartsWith(reason, "nobody has anything to merge")) return std::nullopt;
  const auto stored = stored_.find({fragment, round});
  if (stored == stored_.end()) return broken("nobody was told that anything was stored for it");
  if (const std::optional<absl::Duration> timeout = SecondsAfter(reason, ", timeout of ")) {
    if (!config_.rounds.timeout || !Shows(*timeout, *config_.rounds.timeout, *config_.rounds.timeout)) {
      return broken("the configuration has another timeout");
    }
    // It opened with the commit of the round that left the window, or later.
    const auto before = closed_.find({fragment, round - config_.OpenRounds()});
    const MonotonicTime opened = before == closed_.end() ? started_ : before->second;
    if (closed->second < opened + *config_.rounds.timeout) return broken("that is too early");
    return std::nullopt;
  }
  const std::optional<absl::Duration> window = SecondsAfter(reason, ", grace window of ");
  if (!window || !Shows(*window, ShortestWindow(config_.rounds), LongestWindow(config_.rounds))) {
    return broken("the configuration allows no such window");
  }
  if (absl::StrContains(reason, "(adaptive: ") == config_.rounds.grace_window.has_value()) {
    return broken("the window adapts where it is fixed, or the other way round");
  }
  // While somebody is awaited there is no quorum before the first contribution.
  if (closed->second < stored->second + (*window - kTenth)) return broken("that is too early");
  return std::nullopt;
}

std::optional<std::string> RoundWatch::FindOverdue() const {
  if (held_ || paused_) return std::nullopt;
  for (const auto& [fragment, waiting] : waiting_) {
    const absl::Duration waits = loop_.Now() - waiting.since - (stopped_ - waiting.stopped_before);
    if (waits > LongestWindow(config_.rounds) + kActsWithin) {
      return absl::StrFormat("fragment %d, round %d should have closed %s after \"%s\"", fragment, waiting.round,
                             absl::FormatDuration(waits), waiting.reason);
    }
  }
  return std::nullopt;
}

}  // namespace diloco::sim
