#include "worker/outer/schedule.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"

#include "common/base/check.h"

namespace diloco {
namespace {

std::vector<int64_t> OffsetsOf(const RunConfig& config, int fragments) {
  absl::StatusOr<std::vector<int64_t>> offsets = FragmentOffsets(config, fragments);
  DILOCO_CHECK(offsets.ok());
  return *std::move(offsets);
}

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }

}  // namespace

Schedule::Schedule(const RunConfig& config, int fragments)
    : inner_steps_(config.inner_steps),
      rounds_(config.run.rounds),
      overlap_(config.overlap),
      max_late_(config.max_late),
      offsets_(OffsetsOf(config, fragments)) {}

int64_t Schedule::End(int fragment, int64_t round) const {
  return round == rounds_ - 1 ? steps() : (round + 1) * inner_steps_ + offsets_[static_cast<size_t>(fragment)];
}

Stop Schedule::Ending(int fragment, int64_t round) const {
  return {.step = End(fragment, round), .round = round, .takes = true, .sets = overlap_ % inner_steps_ == 0};
}

std::optional<Stop> Schedule::Setting(int fragment, int64_t round) const {
  // Of the last round, the end record brings it.
  if (overlap_ % inner_steps_ == 0 || round >= rounds_ - 1) return std::nullopt;
  return Stop{.step = std::min(End(fragment, round) + overlap_, steps()), .round = round, .sets = true};
}

std::optional<Stop> Schedule::FirstAfter(int fragment, int64_t step, int64_t first_round) const {
  const int64_t offset = offsets_[static_cast<size_t>(fragment)];
  // Of the first round that ends after `step`, and of the one whose average is applied first after it.
  const int64_t ends = std::max(first_round, std::max<int64_t>(0, (step - offset) / inner_steps_));
  const int64_t sets = std::max<int64_t>(0, (step - offset - overlap_) / inner_steps_);
  std::optional<Stop> first;
  for (int64_t round = ends; round < rounds_ && !first; ++round) {
    if (End(fragment, round) > step) first = Ending(fragment, round);
  }
  for (int64_t round = sets; round < rounds_; ++round) {
    const std::optional<Stop> setting = Setting(fragment, round);
    if (!setting || setting->step <= step) continue;
    // Of two stops at the same step, the average of the round before comes first.
    if (!first || setting->step <= first->step) return setting;
    break;
  }
  return first;
}

std::optional<Stop> Schedule::Next(int fragment, const Stop& stop, int64_t first_round) const {
  if (stop.takes) {
    if (const std::optional<Stop> setting = Setting(fragment, stop.round)) return setting;
  }
  const int64_t round = stop.round + 1;
  if (round >= rounds_) return std::nullopt;
  return round < first_round ? Setting(fragment, round) : Ending(fragment, round);
}

std::optional<Stop> Schedule::Refit(int fragment, int64_t step, int64_t first_round, int64_t untaken) const {
  const int64_t round = std::max(first_round, untaken);
  if (round < rounds_ && End(fragment, round) <= step) {
    Stop late = Ending(fragment, round);
    late.step = step;
    return late;
  }
  if (untaken <= first_round) return FirstAfter(fragment, step, first_round);
  // Older averages are applied, at the run's former end before their time.
  const std::optional<Stop> setting = Setting(fragment, untaken - 1);
  if (setting && setting->step > step) return setting;
  return untaken < rounds_ ? std::optional(Ending(fragment, untaken)) : std::nullopt;
}

StopPlan Schedule::Plan(int64_t round, int64_t published) const {
  // The averages of rounds 0 .. round - k, as a count.
  const int64_t in_time = std::max<int64_t>(0, round + 1 - overlap_ / inner_steps_);
  const bool closed_without_us = published > round;
  return {.wanted = closed_without_us ? published : in_time, .required = std::max<int64_t>(0, in_time - max_late_)};
}

int64_t Schedule::Resume(int64_t step, absl::Span<const int64_t> published) const {
  int64_t open = steps();
  for (size_t f = 0; f < published.size(); ++f) {
    const int64_t start = published[f] == 0 ? 0 : End(static_cast<int>(f), std::min(published[f], rounds_) - 1);
    open = std::min(open, start);
  }
  return std::max(step, open);
}

int64_t Schedule::StartVersion(int fragment, int64_t first_round) const {
  const int64_t behind = RoundUp(offsets_[static_cast<size_t>(fragment)] + overlap_, inner_steps_);
  return std::max<int64_t>(0, first_round - behind);
}

}  // namespace diloco
