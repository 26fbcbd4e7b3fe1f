// A worker at 80 % of the others' speed, in simulated time, with a quorum that does without it.
//
// Workers follow the worker's rule: a boundary every H inner steps; the contribution goes up while training goes on
// with the next round, or with the oldest open one where that is later; nobody trains a round beyond the window.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/types/span.h"

#include "coordinator/round/round_machine.h"

namespace diloco {
namespace {

const absl::Duration kFastRound = absl::Seconds(10);
const absl::Duration kSlowRound = kFastRound / 0.8;
const absl::Duration kUpload = absl::Milliseconds(500);
const absl::Duration kMerge = absl::Milliseconds(250);
const absl::Duration kDownload = absl::Milliseconds(500);
const absl::Duration kHeartbeat = absl::Seconds(2);
// What a blocking worker waits for even when all are equally fast.
const absl::Duration kRoundTrip = kUpload + kMerge + kDownload;

class Simulation {
 public:
  struct Worker {
    std::string id;
    absl::Duration round_time;
    int64_t round = 0;         // That it trains in, or will once it need not wait.
    int64_t known_oldest = 0;  // Oldest open round, as far as it has heard.
    bool waiting = false;
    MonotonicTime waiting_since;
    absl::Duration longest_wait;
    int64_t largest_distance = 0;  // Of the oldest open round to its own, at a boundary.
    int64_t sent = 0;
    int64_t merged = 0;
  };

  explicit Simulation(const RoundOptions& options) : options_(options), machine_(options) {
    for (int i = 0; i < options.workers; ++i) {
      // The slow one has the first id, so that no rule prefers the others by name.
      workers_.push_back(
          {.id = i == 0 ? "a-slow" : "fast-" + std::to_string(i), .round_time = i == 0 ? kSlowRound : kFastRound});
    }
  }

  void RunToTheEnd() {
    for (Worker& worker : workers_) {
      Step(WorkerJoined{worker.id, 1});
      Heartbeat(worker);
    }
    Step(RunSeeded{});
    for (Worker& worker : workers_) Train(worker);
    while (machine_.phase() != RunPhase::kEnded) {
      ASSERT_FALSE(agenda_.empty());
      const auto next = agenda_.begin();
      if (const auto deadline = machine_.NextDeadline(); deadline && *deadline < next->first) {
        now_ = *deadline;
        Step(TimePassed{});
        ASSERT_TRUE(!machine_.NextDeadline() || now_ < *machine_.NextDeadline()) << "a deadline is never done with";
        continue;
      }
      now_ = next->first;
      const std::function<void()> action = std::move(next->second);
      agenda_.erase(next);
      action();
    }
  }

  const Worker& slow() const { return workers_.front(); }
  absl::Span<const Worker> fast() const { return absl::MakeConstSpan(workers_).subspan(1); }
  absl::Duration elapsed() const { return now_ - MonotonicTime(); }
  // From when the quorum of a round was there until it closed.
  absl::Duration longest_close() const { return longest_close_; }

 private:
  using RoundKey = std::pair<int, int64_t>;  // Fragment, round.

  void At(absl::Duration delay, std::function<void()> action) { agenda_.emplace(now_ + delay, std::move(action)); }

  void Heartbeat(Worker& worker) {
    Step(WorkerHeard{worker.id, 1});
    At(kHeartbeat, [this, &worker] { Heartbeat(worker); });
  }

  void Train(Worker& worker) {
    if (worker.round >= options_.rounds) return;
    if (worker.round >= worker.known_oldest + options_.open_rounds) {
      if (!worker.waiting) worker.waiting_since = now_;
      worker.waiting = true;
      return;
    }
    if (worker.waiting) worker.longest_wait = std::max(worker.longest_wait, now_ - worker.waiting_since);
    worker.waiting = false;
    At(worker.round_time, [this, &worker] { Boundary(worker); });
  }

  void Boundary(Worker& worker) {
    worker.largest_distance = std::max(worker.largest_distance, machine_.OldestOpenRound() - worker.round);
    for (int fragment = 0; fragment < options_.fragments; ++fragment) {
      ++worker.sent;
      At(kUpload, [this, id = ContributionId{worker.id, fragment, worker.round}] {
        Step(ContributionStored{id, 1, {0, 1}, 1});
        NoteQuorum(id);
      });
    }
    worker.round = std::max(worker.round + 1, worker.known_oldest);
    Train(worker);
  }

  // Counted here, apart from the machine: the time at which a round had its quorum.
  void NoteQuorum(const ContributionId& id) {
    const RoundKey key(id.fragment, id.round);
    if (++arrived_[key] == options_.quorum) quorum_at_[key] = now_;
  }

  void Step(const RoundEvent& event) {
    for (const RoundEffect& effect : machine_.Step(event, now_)) {
      if (const auto* merge = std::get_if<StartMerge>(&effect)) {
        Closed({merge->fragment, merge->round});
        At(kMerge, [this, done = MergeFinished{merge->fragment, merge->round}] { Step(done); });
      } else if (const auto* persist = std::get_if<PersistCommit>(&effect)) {
        for (const Settled& line : persist->settled) {
          for (Worker& worker : workers_) {
            worker.merged += worker.id == line.id.worker && line.settlement == Settlement::kMerged ? 1 : 0;
          }
        }
        At(absl::ZeroDuration(), [this, done = CommitPersisted{persist->fragment, persist->round}] { Step(done); });
      } else if (std::holds_alternative<PublishGlobalDelta>(effect)) {
        At(kDownload, [this, oldest = machine_.OldestOpenRound()] { Learn(oldest); });
      } else if (std::holds_alternative<PersistEnd>(effect)) {
        At(absl::ZeroDuration(), [this] { Step(EndPersisted{}); });
      }
    }
  }

  void Learn(int64_t oldest) {
    for (Worker& worker : workers_) {
      worker.known_oldest = std::max(worker.known_oldest, oldest);
      if (!worker.waiting) continue;
      worker.round = std::max(worker.round, worker.known_oldest);
      Train(worker);
    }
  }

  void Closed(const RoundKey& key) {
    // The contribution that completes the quorum may close the round in the same step.
    const auto it = quorum_at_.find(key);
    if (it != quorum_at_.end()) longest_close_ = std::max(longest_close_, now_ - it->second);
  }

  const RoundOptions options_;
  RoundMachine machine_;
  MonotonicTime now_;
  std::vector<Worker> workers_;
  std::multimap<MonotonicTime, std::function<void()>> agenda_;
  std::map<RoundKey, int> arrived_;
  std::map<RoundKey, MonotonicTime> quorum_at_;
  absl::Duration longest_close_;
};

RoundOptions Options(int workers, int quorum, int64_t open_rounds, absl::Duration grace) {
  RoundOptions options;
  options.workers = workers;
  options.quorum = quorum;
  options.grace_window = grace;
  options.lease = absl::Seconds(20);
  options.late = LatePolicy::kMerge;
  options.rounds = 100;
  options.open_rounds = open_rounds;
  options.fragments = 2;
  options.max_members = workers;
  return options;
}

class SlowWorkerTest : public testing::TestWithParam<std::tuple<int, int64_t, int>> {};

TEST_P(SlowWorkerTest, NeitherFallsBehindNorHoldsTheOthers) {
  const auto [workers, open_rounds, grace_seconds] = GetParam();
  const absl::Duration grace = absl::Seconds(grace_seconds);
  const RoundOptions options = Options(workers, workers - 1, open_rounds, grace);
  Simulation simulation(options);
  simulation.RunToTheEnd();

  // It trains the oldest open round that it knows of, so only what closes in one of its own rounds, and before it hears
  // of it, can put it behind: 12.5 s + 0.5 s against 10 s.
  EXPECT_LE(simulation.slow().largest_distance, 2);

  // The others wait for it no longer than the grace window; beside that, a blocking worker waits for the round trip,
  // and one that may run ahead by two rounds does not wait at all.
  EXPECT_LE(simulation.longest_close(), grace);
  for (const Simulation::Worker& fast : simulation.fast()) {
    EXPECT_LE(fast.longest_wait, open_rounds == 1 ? kRoundTrip + grace : absl::ZeroDuration()) << fast.id;
  }

  // What it sends is merged, but for what the end of the run overtakes, and it sends all the time: no round of it takes
  // longer than its own or, where it waits for the others, theirs.
  const Simulation::Worker& slow = simulation.slow();
  EXPECT_GE(slow.merged, slow.sent - 2 * options.fragments);
  const absl::Duration period = std::max(kSlowRound, kFastRound + kRoundTrip + grace);
  const auto least = static_cast<int64_t>(absl::FDivDuration(simulation.elapsed(), period)) - 1;
  EXPECT_GE(slow.sent, least * options.fragments);
}

INSTANTIATE_TEST_SUITE_P(WorkersWindowGrace, SlowWorkerTest,
                         testing::Combine(testing::Values(2, 3, 5), testing::Values<int64_t>(1, 3),
                                          testing::Values(0, 1, 2, 3)));

// The measure measures: with a quorum of all, the slow one does hold the others.
TEST(SlowWorkerControlTest, HoldsTheOthersWhenTheQuorumIsAll) {
  Simulation simulation(Options(/*workers=*/3, /*quorum=*/3, /*open_rounds=*/1, absl::Seconds(1)));
  simulation.RunToTheEnd();
  for (const Simulation::Worker& fast : simulation.fast()) {
    EXPECT_EQ(fast.longest_wait, kSlowRound - kFastRound + kRoundTrip);
  }
  EXPECT_EQ(simulation.slow().merged, 100 * 2);
}

}  // namespace
}  // namespace diloco
