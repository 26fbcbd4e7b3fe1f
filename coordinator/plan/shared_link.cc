#include "coordinator/plan/shared_link.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "common/base/check.h"

namespace diloco {

SharedLink::SharedLink(std::vector<Group> groups, double shared_rate)
    : groups_(std::move(groups)),
      by_rate_(groups_.size()),
      shared_rate_(shared_rate),
      queues_(groups_.size()),
      rates_(groups_.size()) {
  std::iota(by_rate_.begin(), by_rate_.end(), size_t{0});
  std::stable_sort(by_rate_.begin(), by_rate_.end(),
                   [&](size_t a, size_t b) { return groups_[a].rate < groups_[b].rate; });
}

void SharedLink::Enqueue(size_t group, int fragment, double bytes) {
  queues_[group].push_back({.fragment = fragment, .bytes_left = bytes});
  if (queues_[group].size() == 1) Share();
}

void SharedLink::Share() {
  double left = shared_rate_;
  int workers = 0;
  for (size_t g = 0; g < groups_.size(); ++g) workers += queues_[g].empty() ? 0 : groups_[g].workers;
  for (const size_t g : by_rate_) {
    if (queues_[g].empty()) continue;
    rates_[g] = std::min(groups_[g].rate, left / workers);
    // An unlimited shared link stays unlimited, also under unlimited own links.
    if (rates_[g] < std::numeric_limits<double>::infinity()) left -= rates_[g] * groups_[g].workers;
    workers -= groups_[g].workers;
  }
}

double SharedLink::UntilNext() const {
  double seconds = std::numeric_limits<double>::infinity();
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (!queues_[g].empty()) seconds = std::min(seconds, queues_[g].front().bytes_left / rates_[g]);
  }
  return seconds;
}

std::vector<SharedLink::Done> SharedLink::Advance(double seconds) {
  std::vector<Done> done;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (queues_[g].empty()) continue;
    Transfer& transfer = queues_[g].front();
    if (transfer.bytes_left / rates_[g] <= seconds) {
      done.push_back({.group = g, .fragment = transfer.fragment});
      queues_[g].pop_front();
    } else {
      transfer.bytes_left -= rates_[g] * seconds;
    }
  }
  if (!done.empty()) Share();
  return done;
}

}  // namespace diloco
