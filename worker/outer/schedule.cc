#include "worker/outer/schedule.h"

#include <algorithm>

namespace diloco {

Schedule::Schedule(const RunConfig& config)
    : inner_steps_(config.inner_steps),
      rounds_(config.run.rounds),
      overlap_rounds_(config.overlap / config.inner_steps),
      max_late_(config.max_late) {}

BoundaryPlan Schedule::Plan(int64_t round, int64_t published) const {
  // The averages of rounds 0 .. round - overlap_rounds, as a count.
  const int64_t in_time = std::max<int64_t>(0, round + 1 - overlap_rounds_);
  const bool closed_without_us = published > round;
  return {.wanted = closed_without_us ? published : in_time, .required = std::max<int64_t>(0, in_time - max_late_)};
}

int64_t Schedule::NextRound(int64_t round, int64_t published) const { return std::max(round + 1, published); }

int64_t Schedule::StartVersion(int64_t first_round) const {
  return std::max<int64_t>(0, first_round - overlap_rounds_);
}

}  // namespace diloco
