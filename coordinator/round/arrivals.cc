#include "coordinator/round/arrivals.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "coordinator/round/decide.h"

namespace diloco {
namespace {

// Makes the median absolute deviation of a normal distribution its standard deviation: 1 / quantile(3/4).
constexpr double kScale = 1.4826;

// Of an even number of values, the mean of the two in the middle. `values` is not empty.
absl::Duration Median(std::vector<absl::Duration> values) {
  DILOCO_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

void Arrivals::NoteQuorum(int64_t round, MonotonicTime now) {
  rounds_[round] = {.quorum_since = now, .wait = std::nullopt};
  rounds_.erase(rounds_.begin(), rounds_.upper_bound(rounds_.rbegin()->first - kGraceRounds));
}

void Arrivals::NoteContribution(int64_t round, MonotonicTime now) {
  if (const auto it = rounds_.find(round); it != rounds_.end()) it->second.wait = now - it->second.quorum_since;
}

GraceWindow Arrivals::Window(const AdaptiveGrace& grace, int64_t round) const {
  std::vector<absl::Duration> waits;
  for (auto it = rounds_.begin(); it != rounds_.end() && it->first < round; ++it) {
    if (it->second.wait) waits.push_back(*it->second.wait);
  }
  if (waits.size() < kLeastGraceWaits) {
    return {
        .length = grace.cap,
        .basis = absl::StrCat("adaptive: the cap, for ", waits.size(), " of ", kLeastGraceWaits, " waits are known")};
  }
  const absl::Duration median = Median(waits);
  std::vector<absl::Duration> deviations;
  for (const absl::Duration wait : waits) deviations.push_back(absl::AbsDuration(wait - median));
  const absl::Duration spread = Median(deviations) * kScale;
  return {.length = std::clamp(median + spread * kGraceSpreads, grace.floor, grace.cap),
          .basis = absl::StrCat("adaptive: median ", SecondsText(median), ", spread ", SecondsText(spread), ", ",
                                waits.size(), " rounds")};
}

}  // namespace diloco
