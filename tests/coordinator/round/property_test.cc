// Random runs: the machine against the naive model, event by event, under an auditor. To repeat a failure:
//   DILOCO_SEED=N build/tests/diloco_round_property_test
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "coordinator/round/round_machine.h"
#include "tests/coordinator/round/auditor.h"
#include "tests/coordinator/round/describe.h"
#include "tests/coordinator/round/durable.h"
#include "tests/coordinator/round/naive_model.h"

namespace diloco {
namespace {

constexpr int kRuns = 2000;
constexpr int kStepsInARun = 150;
constexpr int kStepsToAdapt = 400;  // Where that takes some rounds first.

// Effects as text, without reasons: those are Decide's, and the model has none.
std::vector<std::string> WithoutReasons(std::vector<RoundEffect> effects) {
  std::vector<std::string> out;
  for (RoundEffect& effect : effects) {
    if (auto* answer = std::get_if<AnswerContribution>(&effect)) answer->reason.clear();
    if (auto* refuse = std::get_if<RefuseWorker>(&effect)) refuse->message.clear();
    out.push_back(Describe(effect));
  }
  return out;
}

// One random run.
class RandomRun {
 public:
  explicit RandomRun(uint64_t seed)
      : random_(seed),
        options_(RandomOptions()),
        machine_(options_),
        model_(options_),
        durable_(options_.fragments),
        auditor_(options_.fragments) {
    for (int i = 0; i < options_.workers + Below(3); ++i) {
      workers_.push_back({.id = std::string(1, static_cast<char>('a' + i)), .incarnation = 1});
    }
  }

  // Anything may happen.
  void Wander() {
    const int steps = options_.adaptive_grace ? kStepsToAdapt : kStepsInARun;
    for (int i = 0; i < steps && failure_.empty(); ++i) RandomEvent();
  }

  // Everybody who is there does its part: then the run comes to its end, whatever has happened before.
  void Finish() {
    const int64_t turns_limit = 50 * options_.rounds + 100;
    for (int64_t turn = 0; failure_.empty() && machine_.phase() != RunPhase::kEnded; ++turn) {
      if (turn == turns_limit) Fail(absl::StrCat("the run does not end: ", machine_.Reason(now_)));
      FairTurn();
    }
    auditor_.CheckNothingIsLeft();
    if (failure_.empty() && !auditor_.complaints().empty()) Fail(auditor_.complaints().front());
  }

  const std::string& failure() const { return failure_; }
  int merged() const { return auditor_.merged(); }
  int dropped() const { return auditor_.dropped(); }
  // Rounds that closed for this.
  int adapted() const { return adapted_; }
  int timed_out() const { return timed_out_; }
  // Times that an operator changed the rules.
  int steered() const { return steered_; }

 private:
  struct Worker {
    std::string id;
    uint64_t incarnation = 1;
  };

  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }
  bool Chance(int percent) { return Below(100) < percent; }

  RoundOptions RandomOptions() {
    RoundOptions options;
    options.workers = 1 + Below(4);
    options.quorum = 1 + Below(options.workers);
    options.grace_window = absl::Seconds(Below(3) * 10);
    if (Chance(40)) options.timeout = absl::Seconds(10 + Below(100));
    options.lease = absl::Seconds(60);
    options.late = Chance(50) ? LatePolicy::kMerge : LatePolicy::kDrop;
    options.rounds = 1 + Below(8);
    options.open_rounds = 1 + Below(3);
    options.fragments = 1 + Below(3);
    options.max_members = options.workers + Below(2);
    if (Chance(8)) {
      const absl::Duration floor = absl::Seconds(Below(5));
      options.adaptive_grace = {.floor = floor, .cap = floor + absl::Seconds(Below(60))};
      options.rounds = 12 + Below(8);
    }
    return options;
  }

  void RandomEvent() {
    if (options_.adaptive_grace && Chance(20)) now_ = now_ + absl::Seconds(1 + Below(4));  // So that there are waits.
    const Worker worker = RandomWorker();
    const ContributionId id = RandomId(worker.id);
    const Digest digest{0, Chance(90) ? 1u : 2u};
    const int dice = Below(100);
    if (dice < 10) {
      now_ = now_ + absl::Seconds(Below(15));
      Step(TimePassed{});
    } else if (dice < 18) {
      Join(worker.id, Chance(80));
    } else if (dice < 26) {
      Step(WorkerHeard{worker.id, worker.incarnation});
    } else if (dice < 27) {
      Step(WorkerLeft{worker.id, worker.incarnation});
    } else if (dice < 28) {
      Step(DrainAsked{worker.id});
    } else if (dice < 29) {
      Step(WorkerStopped{worker.id, worker.incarnation, id.round - Below(2)});
    } else if (dice < 30) {
      Operate(worker.id);
      Steer();
    } else if (dice < 33) {
      if (machine_.phase() == RunPhase::kSeeding) Step(RunSeeded{});
    } else if (dice < 72) {
      Step(ContributionStored{id, worker.incarnation, digest, 0.5 * (1 + Below(4))});
    } else if (dice < 75) {
      Step(ContributionRefused{id, worker.incarnation, digest, "not finite"});
    } else if (dice < 80) {
      Step(WorkerAbstained{id, worker.incarnation, "not finite"});
    } else if (dice < 98) {
      Complete();
    } else if (dice < 99) {
      if (Chance(50)) return Restart();
      now_ = now_ + absl::Seconds(Below(100));
      Step(LeasesRenewed{});
    } else {
      now_ = now_ + absl::Seconds(Below(100));
      Step(TimePassed{});
    }
  }

  // An operator who soon regrets it.
  void Operate(const std::string& id) {
    if (Chance(40)) {
      Step(EvictionAsked{id});
    } else {
      Step(EvictionLifted{id});
    }
  }

  void SetHeld(bool held) {
    held_ = held;
    if (held) {
      machine_.Hold(HeldBy::kOperator);
    } else {
      machine_.Release(HeldBy::kOperator);
    }
    model_.SetHeld(held);
    ++steered_;
    Step(TimePassed{});
  }

  // Pauses, resumes, sets, extends and now and then stops the run.
  void Steer() {
    if (Chance(60)) return SetHeld(!held_);
    RoundOptions options = options_;
    options.quorum = 1 + Below(options.workers);
    options.late = Chance(50) ? LatePolicy::kMerge : LatePolicy::kDrop;
    options.timeout.reset();
    if (Chance(40)) options.timeout = absl::Seconds(10 + Below(100));
    options.grace_window = absl::Seconds(Below(3) * 10);
    if (!machine_.ended() && !options.stopped) options.rounds += Below(2);
    if (!machine_.ended() && machine_.phase() == RunPhase::kTraining && Chance(10)) {
      options.rounds = machine_.EarliestEnd();
      options.stopped = true;
    }
    options_ = options;
    machine_.SetOptions(options_, now_);
    model_.SetOptions(options_);
    ++steered_;
    Step(TimePassed{});
  }

  // Mostly as the process that runs now.
  Worker RandomWorker() {
    Worker worker = workers_[static_cast<size_t>(Below(static_cast<int>(workers_.size())))];
    if (Chance(3)) worker.incarnation = static_cast<uint64_t>(1 + Below(3));
    return worker;
  }

  // Around the window, early, late, and now and then beside everything.
  ContributionId RandomId(const std::string& worker) {
    const int fragment = Below(options_.fragments);
    const int64_t round = machine_.NextRound(fragment) + Below(static_cast<int>(options_.open_rounds) + 3) - 2;
    return {worker, Chance(99) ? fragment : fragment - 2, round};
  }

  void Join(const std::string& id, bool same_process) {
    for (Worker& worker : workers_) {
      if (worker.id != id) continue;
      if (!same_process) worker.incarnation = 1 + worker.incarnation;
      Step(WorkerJoined{worker.id, worker.incarnation, Chance(50)});
    }
  }

  // One of the merges and syncs under way completes.
  void Complete() {
    if (pending_.empty()) return;
    const auto it = pending_.begin() + Below(static_cast<int>(pending_.size()));
    const RoundEvent event = *it;
    pending_.erase(it);
    Step(event);
  }

  void Restart() {
    absl::StatusOr<RoundMachine> restored = RoundMachine::Restore(options_, durable_.recovered(), now_);
    if (!restored.ok()) return Fail(restored.status().ToString());
    log_.push_back("restart");
    machine_ = *std::move(restored);
    model_.Restart(now_);
    auditor_.Restart();
    pending_.clear();
    if (held_) machine_.Hold(HeldBy::kOperator);
    Step(TimePassed{});
  }

  void FairTurn() {
    if (held_) SetHeld(false);
    now_ = now_ + absl::Seconds(10);
    if (machine_.phase() == RunPhase::kSeeding) Step(RunSeeded{});
    for (Worker& worker : workers_) {
      Step(EvictionLifted{worker.id});
      if (!machine_.IsMember(worker.id, worker.incarnation)) Join(worker.id, /*same_process=*/true);
      // Its process is over for good where it has left, or was evicted and let in again.
      if (!machine_.IsMember(worker.id, worker.incarnation)) Join(worker.id, /*same_process=*/false);
      if (!machine_.IsMember(worker.id, worker.incarnation)) continue;
      Step(WorkerHeard{worker.id, worker.incarnation});
      for (int fragment = 0; fragment < options_.fragments; ++fragment) {
        const ContributionId id{worker.id, fragment, machine_.NextRound(fragment)};
        if (machine_.Ask(id, worker.incarnation) != Verdict::kWanted) continue;
        Step(ContributionStored{id, worker.incarnation, {0, 1}, 1});
      }
      if (model_.Draining(worker.id)) Step(WorkerLeft{worker.id, worker.incarnation});
    }
    while (!pending_.empty()) Complete();
  }

  void Step(const RoundEvent& event) {
    if (!failure_.empty()) return;
    durable_.Observe(event);
    const std::vector<RoundEffect> effects = machine_.Step(event, now_);
    const std::vector<std::string> got = WithoutReasons(effects);
    const std::vector<std::string> wanted = WithoutReasons(model_.Step(event, now_));
    log_.push_back(absl::StrCat("at ", absl::FormatDuration(now_ - MonotonicTime()), ", event ", event.index()));
    for (const std::string& line : got) log_.push_back("  " + line);
    if (got != wanted) {
      std::string message = "the model says:";
      for (const std::string& line : wanted) absl::StrAppend(&message, "\n  ", line);
      return Fail(message);
    }
    for (const RoundEffect& effect : effects) {
      durable_.Observe(effect);
      if (const auto* merge = std::get_if<StartMerge>(&effect)) {
        pending_.push_back(MergeFinished{merge->fragment, merge->round});
        const std::string reason = machine_.OpenRounds(merge->fragment, now_).front().reason;
        adapted_ += absl::StrContains(reason, "(adaptive: median") ? 1 : 0;
        timed_out_ += absl::StrContains(reason, ", timeout of ") ? 1 : 0;
      } else if (const auto* persist = std::get_if<PersistCommit>(&effect)) {
        pending_.push_back(CommitPersisted{persist->fragment, persist->round});
      } else if (std::holds_alternative<PersistEnd>(effect)) {
        pending_.push_back(EndPersisted{});
      }
    }
    auditor_.Observe(event, effects);
    if (!auditor_.complaints().empty()) return Fail(auditor_.complaints().front());
    CompareQuestions();
  }

  void CompareQuestions() {
    const Worker worker = RandomWorker();
    const ContributionId id = RandomId(worker.id);
    const bool same =
        machine_.Ask(id, worker.incarnation) == model_.Ask(id, worker.incarnation) &&
        machine_.IsMember(worker.id, worker.incarnation) == model_.IsMember(worker.id, worker.incarnation) &&
        machine_.Seeder() == model_.Seeder() && machine_.Evaluator() == model_.Evaluator() &&
        machine_.NextDeadline() == model_.NextDeadline() && machine_.EarliestEnd() == model_.EarliestEnd();
    if (machine_.NextDeadline() && *machine_.NextDeadline() <= now_) return Fail("a deadline is never done with");
    for (const MemberView& member : machine_.Members()) {
      if (member.draining != model_.Draining(member.worker) ||
          member.participating != model_.Participating(member.worker)) {
        return Fail(absl::StrCat("whether ", member.worker, " is draining (", member.draining, ") or participates (",
                                 member.participating, ") differs"));
      }
    }
    if (!same) return Fail(absl::StrCat("a question about ", worker.id, "/", worker.incarnation, " differs"));
    for (int fragment = 0; fragment < options_.fragments; ++fragment) {
      if (machine_.NextRound(fragment) != model_.NextRound(fragment) ||
          machine_.SettledRound(worker.id, fragment) != model_.SettledRound(worker.id, fragment)) {
        return Fail(absl::StrCat("the rounds of fragment ", fragment, " differ"));
      }
    }
  }

  void Fail(const std::string& what) {
    failure_ = what + "\nlast events and effects:";
    for (size_t i = log_.size() > 40 ? log_.size() - 40 : 0; i < log_.size(); ++i) {
      absl::StrAppend(&failure_, "\n", log_[i]);
    }
  }

  std::mt19937_64 random_;
  RoundOptions options_;
  bool held_ = false;
  RoundMachine machine_;
  NaiveModel model_;
  Durable durable_;
  Auditor auditor_;
  MonotonicTime now_;
  std::vector<Worker> workers_;
  std::deque<RoundEvent> pending_;
  std::vector<std::string> log_;
  std::string failure_;
  int adapted_ = 0;
  int timed_out_ = 0;
  int steered_ = 0;
};

TEST(RoundPropertyTest, AgreesWithTheNaiveModelAndAlwaysEnds) {
  uint64_t first = 1;
  uint64_t last = kRuns;
  if (const char* seed = std::getenv("DILOCO_SEED"); seed != nullptr) {
    ASSERT_TRUE(absl::SimpleAtoi(seed, &first)) << seed;
    last = first;
  }
  int merged = 0;
  int dropped = 0;
  int adapted = 0;
  int timed_out = 0;
  int steered = 0;
  for (uint64_t seed = first; seed <= last; ++seed) {
    RandomRun run(seed);
    run.Wander();
    run.Finish();
    ASSERT_EQ(run.failure(), "") << "repeat with DILOCO_SEED=" << seed;
    merged += run.merged();
    dropped += run.dropped();
    adapted += run.adapted();
    timed_out += run.timed_out();
    steered += run.steered();
  }
  // The runs are worth something only if much is merged, something is dropped, and every rule closes rounds.
  if (first == last) return;
  EXPECT_GT(merged, 10 * kRuns);
  EXPECT_GT(dropped, kRuns);
  EXPECT_GT(adapted, kRuns / 20);
  EXPECT_GT(timed_out, kRuns / 20);
  EXPECT_GT(steered, kRuns);
}

}  // namespace
}  // namespace diloco
