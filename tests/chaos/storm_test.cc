// A storm: workers are killed and stopped at random, all the time; and yet nearly every round holds the work of
// everybody who was left alone in it, and the coordinator does not grow.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

#include "tests/chaos/cluster.h"
#include "tests/chaos/coordinator_log.h"
#include "tests/chaos/is_ok.h"
#include "tests/chaos/seed.h"
#include "tests/support/process_facts.h"

namespace diloco::testing {
namespace {

constexpr absl::Duration kFaultEvery = absl::Seconds(2);
constexpr absl::Duration kStopped = absl::Seconds(10);
constexpr absl::Duration kDead = absl::Seconds(5);
constexpr int kSnapshotEvery = 5;
constexpr absl::Duration kStepTime = absl::Milliseconds(100);

std::string Config(int workers, int inner_steps) {
  return absl::StrFormat(
      "run: {id: storm, workers: %d, rounds: 1000000}\n"
      "method: eager\n"
      "inner_steps: %d\n"
      "fragments: {count: 2}\n"
      "rounds: {quorum: %d, heartbeat_interval: 500ms, lease: 5s, grace_window: 10s, snapshot_every: %d}\n",
      workers, inner_steps, workers / 2, kSnapshotEvery);
}

struct Sample {
  absl::Time at;
  ProcessFacts facts;
};

class Storm {
 public:
  Storm(int workers, int inner_steps, absl::Duration duration)
      : duration_(duration),
        cluster_({.config_yaml = Config(workers, inner_steps),
                  .workers = workers,
                  .elements = 50000,
                  .step_time = kStepTime}),
        disturbed_(static_cast<size_t>(workers)) {}

  // Begins when so many rounds are committed.
  void Run(int64_t rounds_before) {
    ASSERT_TRUE(IsOk(cluster_.Start()));
    ASSERT_TRUE(IsOk(cluster_.AwaitRounds(rounds_before)));
    began_ = absl::Now();
    absl::Time next_fault = began_;
    while (absl::Now() < began_ + duration_) {
      if (absl::Now() >= next_fault) {
        next_fault += kFaultEvery;
        Disturb();
      }
      Recover(absl::Now());
      Sample(absl::Now());
      absl::SleepFor(absl::Milliseconds(100));  // The storm is a matter of time.
    }
    ended_ = absl::Now();
    Recover(absl::InfiniteFuture());
    const int64_t committed = cluster_.RoundsCommitted();
    ASSERT_TRUE(IsOk(cluster_.AwaitEverybody(committed, 5 * kPatience)));
    ASSERT_TRUE(IsOk(cluster_.CheckNothingLost()));
  }

  // The share of the storm's rounds whose global deltas merged work of every worker that was neither killed nor stopped
  // between their opening and their close: for that round, or late for the one before.
  double WholeRounds();
  // The last minute's mean over the first minute's.
  double Growth(int64_t ProcessFacts::*fact) const {
    const absl::Duration window = std::min(absl::Minutes(1), duration_ / 3);
    return Mean(ended_ - window, ended_, fact) / Mean(began_, began_ + window, fact);
  }
  void PrintFacts() const {
    const ProcessFacts& first = samples_.front().facts;
    const ProcessFacts& last = samples_.back().facts;
    std::cout << "  coordinator: " << first.resident_bytes / 1024 << " -> " << last.resident_bytes / 1024 << " KiB, "
              << first.open_files << " -> " << last.open_files << " files, " << first.threads << " -> " << last.threads
              << " threads\n";
  }

 private:
  struct Interval {
    absl::Time from;
    absl::Time until = absl::InfiniteFuture();
  };
  struct Recovery {
    absl::Time due;
    int worker = 0;
    bool killed = false;
  };

  // Those that opened and closed during the storm.
  std::map<int64_t, Interval> Rounds();
  bool WasCalm(int worker, const Interval& interval) const;

  void Disturb() {
    std::vector<int> calm;
    for (int worker = 0; worker < cluster_.workers(); ++worker) {
      const auto& intervals = disturbed_[static_cast<size_t>(worker)];
      if (intervals.empty() || intervals.back().until < absl::InfiniteFuture()) calm.push_back(worker);
    }
    const int worker = calm[static_cast<size_t>(seed_.Below(static_cast<int>(calm.size())))];
    const bool kill = seed_.Below(2) == 0;
    disturbed_[static_cast<size_t>(worker)].push_back({.from = absl::Now()});
    if (kill) {
      cluster_.KillWorker(worker);
    } else {
      cluster_.worker(worker).Signal(SIGSTOP);
    }
    kills_ += kill ? 1 : 0;
    stops_ += kill ? 0 : 1;
    recoveries_.push_back({.due = absl::Now() + (kill ? kDead : kStopped), .worker = worker, .killed = kill});
  }

  void Recover(absl::Time now) {
    std::erase_if(recoveries_, [&](const Recovery& recovery) {
      if (recovery.due > now) return false;
      if (recovery.killed) {
        cluster_.StartWorker(recovery.worker);
      } else {
        cluster_.worker(recovery.worker).Signal(SIGCONT);
      }
      disturbed_[static_cast<size_t>(recovery.worker)].back().until = absl::Now();
      return true;
    });
  }

  void Sample(absl::Time now) {
    if (!samples_.empty() && now < samples_.back().at + absl::Seconds(1)) return;
    const absl::StatusOr<ProcessFacts> facts = ReadProcessFacts(cluster_.coordinator().process().pid());
    ASSERT_TRUE(IsOk(facts.status()));
    samples_.push_back({now, *facts});
  }

  double Mean(absl::Time from, absl::Time until, int64_t ProcessFacts::*fact) const {
    double sum = 0;
    double count = 0;
    for (const auto& [at, facts] : samples_) {
      if (at < from || at > until) continue;
      sum += static_cast<double>(facts.*fact);
      count += 1;
    }
    return sum / count;
  }

  const absl::Duration duration_;
  Seed seed_;
  Cluster cluster_;
  std::vector<std::vector<Interval>> disturbed_;  // By worker.
  std::vector<Recovery> recoveries_;
  std::vector<struct Sample> samples_;
  absl::Time began_;
  absl::Time ended_;
  int kills_ = 0;
  int stops_ = 0;
};

std::map<int64_t, Storm::Interval> Storm::Rounds() {
  std::map<int64_t, Interval> rounds;  // Over all fragments.
  for (const LoggedRound& logged : CommittedRounds(cluster_.coordinator().Log())) {
    Interval& interval = rounds.try_emplace(logged.round, Interval{logged.opened, logged.closed}).first->second;
    interval = {std::min(interval.from, logged.opened), std::max(interval.until, logged.closed)};
  }
  std::erase_if(rounds, [&](const auto& round) { return round.second.from < began_ || round.second.until > ended_; });
  return rounds;
}

bool Storm::WasCalm(int worker, const Interval& interval) const {
  const auto& intervals = disturbed_[static_cast<size_t>(worker)];
  return std::none_of(intervals.begin(), intervals.end(), [&](const Interval& disturbance) {
    return disturbance.from < interval.until && disturbance.until > interval.from;
  });
}

double Storm::WholeRounds() {
  const absl::StatusOr<JournalReplay> replay = cluster_.Replay();
  if (!replay.ok()) return 0;
  const std::map<int64_t, Interval> rounds = Rounds();
  int whole = 0;
  int whole_in_time = 0;
  int calm_workers = 0;
  absl::Duration open;
  for (const auto& [round, interval] : rounds) {
    open += interval.until - interval.from;
    bool all = true;
    bool all_in_time = true;
    for (int worker = 0; worker < cluster_.workers(); ++worker) {
      if (!WasCalm(worker, interval)) continue;
      ++calm_workers;
      for (int f = 0; f < replay->fragments(); ++f) {
        const std::string id = Cluster::IdOf(worker);
        all_in_time = all_in_time && replay->Merged(f, round).contains(id);
        if (replay->AtWork(f, round).contains(id)) continue;
        all = false;
        std::cout << "  round " << round << ", fragment " << f << " without " << id << '\n';
      }
    }
    whole += all ? 1 : 0;
    whole_in_time += all_in_time ? 1 : 0;
  }
  const double count = std::max(1.0, static_cast<double>(rounds.size()));
  std::cout << "  " << kills_ << " kills, " << stops_ << " stops; " << rounds.size() << " rounds, " << whole
            << " with work of everybody who was left alone, " << whole_in_time
            << " with all of it in time; a round was open for " << absl::FormatDuration(open / count) << " and had "
            << calm_workers / count << " such workers on average\n";
  return whole / count;
}

TEST(StormTest, NothingIsWrongInAnyDigest) {
  Storm storm(8, 10, absl::Seconds(30));
  ASSERT_NO_FATAL_FAILURE(storm.Run(2));
  storm.WholeRounds();
  storm.PrintFacts();
}

TEST(StormTest, RoundsHoldEverybodyWhoWasLeftAloneFull) {
  Storm storm(32, 30, absl::Minutes(10));  // Rounds of three seconds, and what closing them takes.
  // Global deltas are retained for two snapshots' time; the coordinator's memory is flat from then on.
  ASSERT_NO_FATAL_FAILURE(storm.Run(2 * kSnapshotEvery));
  EXPECT_GE(storm.WholeRounds(), 0.97);
  storm.PrintFacts();
  for (const auto& [name, fact] :
       {std::pair("memory", &ProcessFacts::resident_bytes), std::pair("open files", &ProcessFacts::open_files),
        std::pair("threads", &ProcessFacts::threads)}) {
    const double growth = storm.Growth(fact);
    std::cout << "  " << name << ", last minute over first: " << growth << '\n';
    EXPECT_NEAR(growth, 1, 0.1) << name;
  }
}

}  // namespace
}  // namespace diloco::testing
