#include "coordinator/plan/star_simulator.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "common/base/check.h"
#include "coordinator/plan/shared_link.h"

namespace diloco {
namespace {

// Rounds that are simulated and not measured: until the queues are as full as they get. One more for each that the
// overlap holds. Rounds of different length may alternate, n + 1 of them where n are on their way: 60 holds whole
// numbers of these up to n = 5.
constexpr int64_t kWarmUpRounds = 60;
constexpr int64_t kMeasuredRounds = 60;

// A step after which fragments' rounds end or averages are applied; they repeat every inner_steps.
struct Stop {
  int64_t phase = 0;         // Inner steps done since a multiple of inner_steps, [1, inner_steps].
  std::vector<int> taken;    // Fragments whose round ends.
  std::vector<int> applied;  // Fragments whose average is due.
};

std::vector<Stop> MakeStops(const StarRun& run) {
  std::vector<Stop> stops;
  const auto at = [&](int64_t step) -> Stop& {
    const int64_t phase = step % run.inner_steps == 0 ? run.inner_steps : step % run.inner_steps;
    auto found = std::find_if(stops.begin(), stops.end(), [&](const Stop& stop) { return stop.phase == phase; });
    if (found != stops.end()) return *found;
    stops.push_back({.phase = phase});
    return stops.back();
  };
  for (size_t f = 0; f < run.fragments.size(); ++f) {
    at(run.fragments[f].offset).taken.push_back(static_cast<int>(f));
    at(run.fragments[f].offset + run.overlap).applied.push_back(static_cast<int>(f));
  }
  std::sort(stops.begin(), stops.end(), [](const Stop& a, const Stop& b) { return a.phase < b.phase; });
  return stops;
}

std::vector<SharedLink::Group> Groups(const StarRun& run, double StarLink::*rate) {
  std::vector<SharedLink::Group> groups;
  for (const StarLink& link : run.links) groups.push_back({.workers = link.workers, .rate = link.*rate});
  return groups;
}

class Simulation {
 public:
  explicit Simulation(const StarRun& run);
  StarOutcome Run();

 private:
  enum class Kind { kStop, kUploaded, kMerged, kDownloaded };
  struct Event {
    double time;
    int64_t order;  // Of events at the same time, the one scheduled first.
    Kind kind;
    size_t group;
    int fragment;
    bool operator>(const Event& other) const { return std::pair(time, order) > std::pair(other.time, other.order); }
  };
  struct Worker {
    int64_t next_stop = 0;          // Stops passed.
    bool waiting = false;           // At the stop, for an average.
    std::vector<int64_t> uploaded;  // By fragment: rounds that have arrived at the coordinator,
    std::vector<int64_t> averages;  // and averages that have arrived here.
    double measured_from = 0;
    double measured_until = 0;
  };

  void Schedule(double time, Kind kind, size_t group, int fragment);
  void Handle(const Event& event);
  // Puts the outer gradients of the worker's stop into its upload queue.
  void Send(size_t group);
  // Goes on from the stop where the worker is, if every average that it needs has arrived.
  void TryToGoOn(size_t group);
  void MergeIfWhole(int fragment);
  const Stop& StopAt(int64_t index) const { return stops_[static_cast<size_t>(index) % stops_.size()]; }
  int64_t StepsAt(int64_t index) const {
    return index / static_cast<int64_t>(stops_.size()) * run_.inner_steps + StopAt(index).phase;
  }
  // Rounds of the fragment of which `steps` (with any overlap taken off) have seen the end.
  int64_t RoundsEnded(int fragment, int64_t steps) const {
    const int64_t offset = run_.fragments[static_cast<size_t>(fragment)].offset;
    return steps < offset ? 0 : (steps - offset) / run_.inner_steps;
  }

  const StarRun& run_;
  const std::vector<Stop> stops_;
  const int64_t first_measured_;  // Stops.
  const int64_t last_measured_;
  SharedLink up_;
  SharedLink down_;
  std::vector<Worker> workers_;  // One a group.
  std::vector<int64_t> merges_;  // By fragment, begun.
  double now_ = 0;
  double merger_free_ = 0;
  int64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double stale_steps_ = 0;
  int64_t applied_ = 0;
};

Simulation::Simulation(const StarRun& run)
    : run_(run),
      stops_(MakeStops(run)),
      first_measured_(static_cast<int64_t>(stops_.size()) * (kWarmUpRounds + run.overlap / run.inner_steps)),
      last_measured_(first_measured_ + static_cast<int64_t>(stops_.size()) * kMeasuredRounds),
      up_(Groups(run, &StarLink::up), run.ingress),
      down_(Groups(run, &StarLink::down), run.egress),
      merges_(run.fragments.size(), 0) {
  for (size_t g = 0; g < run.links.size(); ++g) {
    workers_.push_back({.uploaded = std::vector<int64_t>(run.fragments.size(), 0),
                        .averages = std::vector<int64_t>(run.fragments.size(), 0)});
    Schedule(static_cast<double>(StepsAt(0)) * run.step_seconds, Kind::kStop, g, 0);
  }
}

void Simulation::Schedule(double time, Kind kind, size_t group, int fragment) {
  events_.push({.time = time, .order = order_++, .kind = kind, .group = group, .fragment = fragment});
}

void Simulation::Send(size_t group) {
  const int64_t steps = StepsAt(workers_[group].next_stop);
  for (const int f : StopAt(workers_[group].next_stop).taken) {
    if (RoundsEnded(f, steps) > 0) up_.Enqueue(group, f, run_.fragments[static_cast<size_t>(f)].up_bytes);
  }
}

void Simulation::TryToGoOn(size_t group) {
  Worker& worker = workers_[group];
  const Stop& stop = StopAt(worker.next_stop);
  const int64_t steps = StepsAt(worker.next_stop);
  int64_t late = 0;
  for (const int f : stop.applied) {
    const int64_t due = RoundsEnded(f, steps - run_.overlap);
    const int64_t missing = std::max<int64_t>(0, due - worker.averages[static_cast<size_t>(f)]);
    worker.waiting = missing > run_.max_late;
    if (worker.waiting) return;
    late += missing;
  }
  if (!run_.sends_first) Send(group);
  if (worker.next_stop >= first_measured_ && worker.next_stop < last_measured_) {
    const auto count = static_cast<int64_t>(stop.applied.size());
    stale_steps_ += static_cast<double>(count * run_.overlap + late * run_.inner_steps);
    applied_ += count;
  }
  if (worker.next_stop == first_measured_) worker.measured_from = now_;
  if (worker.next_stop == last_measured_) worker.measured_until = now_;
  ++worker.next_stop;
  Schedule(now_ + static_cast<double>(StepsAt(worker.next_stop) - steps) * run_.step_seconds, Kind::kStop, group, 0);
}

void Simulation::MergeIfWhole(int fragment) {
  const auto f = static_cast<size_t>(fragment);
  for (const Worker& worker : workers_) {
    if (worker.uploaded[f] <= merges_[f]) return;
  }
  ++merges_[f];
  merger_free_ = std::max(merger_free_, now_) + run_.fragments[f].merge_seconds;
  Schedule(merger_free_, Kind::kMerged, 0, fragment);
}

void Simulation::Handle(const Event& event) {
  const auto f = static_cast<size_t>(event.fragment);
  switch (event.kind) {
    case Kind::kStop:
      if (run_.sends_first) Send(event.group);
      TryToGoOn(event.group);
      break;
    case Kind::kUploaded:
      ++workers_[event.group].uploaded[f];
      MergeIfWhole(event.fragment);
      break;
    case Kind::kMerged:
      for (size_t g = 0; g < workers_.size(); ++g) down_.Enqueue(g, event.fragment, run_.fragments[f].down_bytes);
      break;
    case Kind::kDownloaded:
      ++workers_[event.group].averages[f];
      if (workers_[event.group].waiting) TryToGoOn(event.group);
      break;
  }
}

StarOutcome Simulation::Run() {
  const auto finished = [&](const Worker& worker) { return worker.next_stop > last_measured_; };
  while (!std::all_of(workers_.begin(), workers_.end(), finished)) {
    const double next_event = events_.empty() ? kUnlimited : events_.top().time;
    const double transfer = std::min(up_.UntilNext(), down_.UntilNext());
    const bool event_first = next_event <= now_ + transfer;
    DILOCO_CHECK(event_first || transfer < kUnlimited);
    const double passed = event_first ? next_event - now_ : transfer;
    now_ = event_first ? next_event : now_ + transfer;
    for (const SharedLink::Done& done : up_.Advance(passed)) {
      Schedule(now_ + run_.links[done.group].latency_seconds, Kind::kUploaded, done.group, done.fragment);
    }
    for (const SharedLink::Done& done : down_.Advance(passed)) {
      Schedule(now_ + run_.links[done.group].latency_seconds, Kind::kDownloaded, done.group, done.fragment);
    }
    if (!event_first) continue;
    const Event event = events_.top();
    events_.pop();
    Handle(event);
  }
  StarOutcome outcome{.utilization = 1, .staleness_steps = stale_steps_ / static_cast<double>(applied_)};
  const double compute = static_cast<double>(kMeasuredRounds * run_.inner_steps) * run_.step_seconds;
  for (const Worker& worker : workers_) {
    outcome.utilization = std::min(outcome.utilization, compute / (worker.measured_until - worker.measured_from));
  }
  return outcome;
}

}  // namespace

std::vector<StarLink> GroupAlike(const std::vector<StarLink>& links) {
  std::vector<StarLink> groups;
  for (const StarLink& link : links) {
    const auto alike = std::find_if(groups.begin(), groups.end(), [&](const StarLink& group) {
      return group.up == link.up && group.down == link.down && group.latency_seconds == link.latency_seconds;
    });
    if (alike == groups.end()) {
      groups.push_back(link);
    } else {
      alike->workers += link.workers;
    }
  }
  return groups;
}

SteadyBound SteadyBoundOf(const StarRun& run) {
  double up_bytes = 0;
  double down_bytes = 0;
  double merge_seconds = 0;
  for (const StarFragment& fragment : run.fragments) {
    up_bytes += fragment.up_bytes;
    down_bytes += fragment.down_bytes;
    merge_seconds += fragment.merge_seconds;
  }
  const double compute = static_cast<double>(run.inner_steps) * run.step_seconds;
  double longest = compute;
  SteadyBound bound;
  const auto consider = [&](double seconds, std::string_view what) {
    if (seconds <= longest) return;
    longest = seconds;
    bound = {.utilization = compute / seconds, .bottleneck = what};
  };
  int workers = 0;
  for (const StarLink& link : run.links) {
    consider(up_bytes / link.up, "up");
    consider(down_bytes / link.down, "down");
    workers += link.workers;
  }
  consider(workers * up_bytes / run.ingress, "ingress");
  consider(workers * down_bytes / run.egress, "egress");
  consider(merge_seconds, "merge");
  return bound;
}

StarOutcome SimulateStar(const StarRun& run) {
  DILOCO_CHECK(!run.links.empty() && !run.fragments.empty() && run.step_seconds > 0 && run.inner_steps > 0);
  for (const StarLink& link : run.links) DILOCO_CHECK(link.workers > 0 && link.up > 0 && link.down > 0);
  DILOCO_CHECK(run.ingress > 0 && run.egress > 0);
  StarRun grouped = run;
  grouped.links = GroupAlike(run.links);
  StarOutcome outcome = Simulation(grouped).Run();
  outcome.utilization = std::min(outcome.utilization, SteadyBoundOf(run).utilization);
  return outcome;
}

}  // namespace diloco
