#include "tests/coordinator/round/scenario.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "coordinator/round/round_machine.h"
#include "tests/coordinator/round/describe.h"
#include "tests/coordinator/round/durable.h"

namespace diloco {
namespace {

// One command, taken apart.
struct Command {
  std::string verb;
  std::string worker;
  uint64_t incarnation = 1;
  std::map<std::string, std::string> values;  // key=value
  std::string word;                           // The argument that is neither.

  int64_t Int(const std::string& key, int64_t absent) const {
    const auto it = values.find(key);
    if (it == values.end()) return absent;
    int64_t out = 0;
    EXPECT_TRUE(absl::SimpleAtoi(it->second, &out)) << key << "=" << it->second;
    return out;
  }
  double Double(const std::string& key, double absent) const {
    const auto it = values.find(key);
    if (it == values.end()) return absent;
    double out = 0;
    EXPECT_TRUE(absl::SimpleAtod(it->second, &out)) << key << "=" << it->second;
    return out;
  }
  absl::Duration Duration(const std::string& key, absl::Duration absent) const {
    const auto it = values.find(key);
    if (it == values.end()) return absent;
    absl::Duration out;
    EXPECT_TRUE(absl::ParseDuration(it->second, &out)) << key << "=" << it->second;
    return out;
  }
  int Fragment() const { return static_cast<int>(Int("fragment", 0)); }
  ContributionId Id() const { return {worker, Fragment(), Int("round", 0)}; }
};

Command Parse(const std::string& line) {
  Command command;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(line, ' ', absl::SkipEmpty()))) {
    const std::vector<std::string> pair = absl::StrSplit(word, absl::MaxSplits('=', 1));
    if (command.verb.empty()) {
      command.verb = word;
    } else if (pair.size() == 2) {
      command.values[pair[0]] = pair[1];
    } else {
      command.word = word;
      const std::vector<std::string> name = absl::StrSplit(word, absl::MaxSplits('/', 1));
      command.worker = name[0];
      if (name.size() == 2 && !absl::SimpleAtoi(name[1], &command.incarnation)) ADD_FAILURE() << line;
    }
  }
  return command;
}

class Runner {
 public:
  // Runs one command and returns what it printed, line by line.
  std::vector<std::string> Run(const std::string& line) {
    const Command c = Parse(line);
    out_.clear();
    if (c.verb == "run") {
      Start(c);
    } else if (machine_ == nullptr) {
      ADD_FAILURE() << "`run` comes first: " << line;
    } else if (!Tell(c) && !Show(c)) {
      ADD_FAILURE() << "unknown command: " << line;
    }
    return out_;
  }

 private:
  void Start(const Command& c) {
    options_ = RoundOptions();
    options_.workers = static_cast<int>(c.Int("workers", 2));
    options_.quorum = static_cast<int>(c.Int("quorum", options_.workers));
    options_.grace_window = c.Duration("grace", absl::Seconds(30));
    if (c.values.contains("cap")) {
      options_.adaptive_grace = {.floor = c.Duration("floor", absl::ZeroDuration()),
                                 .cap = c.Duration("cap", absl::ZeroDuration())};
    }
    if (c.values.contains("timeout")) options_.timeout = c.Duration("timeout", absl::ZeroDuration());
    options_.lease = c.Duration("lease", absl::Seconds(60));
    options_.late = c.values.contains("late") && c.values.at("late") == "drop" ? LatePolicy::kDrop : LatePolicy::kMerge;
    options_.rounds = c.Int("rounds", 100);
    options_.open_rounds = c.Int("open", 1);
    options_.fragments = static_cast<int>(c.Int("fragments", 1));
    options_.max_members = static_cast<int>(c.Int("members", 8));
    held_ = false;
    machine_ = std::make_unique<RoundMachine>(options_);
    durable_ = std::make_unique<Durable>(options_.fragments);
  }

  bool Tell(const Command& c) {
    if (c.verb == "seed") {
      Step(RunSeeded{});
    } else if (c.verb == "join") {
      const bool closed = c.values.contains("session") && c.values.at("session") == "closed";
      std::vector<int64_t> resumes;
      if (c.values.contains("resumes")) {
        for (const absl::string_view round : absl::StrSplit(c.values.at("resumes"), ',')) {
          if (!absl::SimpleAtoi(round, &resumes.emplace_back())) ADD_FAILURE() << c.values.at("resumes");
        }
      }
      Step(WorkerJoined{c.worker, c.incarnation, !closed, resumes});
    } else if (c.verb == "hear") {
      Step(WorkerHeard{c.worker, c.incarnation});
    } else if (c.verb == "drain") {
      Step(DrainAsked{c.worker});
    } else if (c.verb == "evict") {
      Step(EvictionAsked{c.worker});
    } else if (c.verb == "admit") {
      Step(EvictionLifted{c.worker});
    } else if (c.verb == "stopped") {
      Step(WorkerStopped{c.worker, c.incarnation, c.Int("round", -1)});
    } else if (c.verb == "leave") {
      Step(WorkerLeft{c.worker, c.incarnation});
    } else if (c.verb == "contribute") {
      Step(ContributionStored{c.Id(), c.incarnation, DigestNumber(c), c.Double("weight", 1)});
    } else if (c.verb == "refuse") {
      Step(ContributionRefused{c.Id(), c.incarnation, DigestNumber(c), "block 7 is not finite"});
    } else if (c.verb == "abstain") {
      Step(WorkerAbstained{c.Id(), c.incarnation, "the outer gradient is not finite"});
    } else if (c.verb == "merged") {
      Merged(c);
    } else if (c.verb == "persisted") {
      Persisted(c);
    } else if (c.verb == "commit") {
      Merged(c);
      Persisted(c);
    } else if (c.verb == "hold" || c.verb == "release") {
      Hold(c.verb == "hold");
    } else if (c.verb == "set" || c.verb == "stop") {
      Set(c);
    } else if (c.verb == "end-persisted") {
      Step(EndPersisted{});
    } else if (c.verb == "tick") {
      absl::Duration duration;
      EXPECT_TRUE(absl::ParseDuration(c.word, &duration)) << c.word;
      now_ = now_ + duration;
      Step(TimePassed{});
    } else if (c.verb == "paused") {
      absl::Duration duration;
      EXPECT_TRUE(absl::ParseDuration(c.word, &duration)) << c.word;
      now_ = now_ + duration;
      Step(LeasesRenewed{});
    } else {
      return false;
    }
    return true;
  }

  void Hold(bool held) {
    held_ = held;
    if (held) {
      machine_->Hold(HeldBy::kOperator);
    } else {
      machine_->Release(HeldBy::kOperator);
    }
    Step(TimePassed{});
  }

  void Set(const Command& c) {
    options_.quorum = static_cast<int>(c.Int("quorum", options_.quorum));
    options_.grace_window = c.Duration("grace", options_.grace_window);
    options_.lease = c.Duration("lease", options_.lease);
    options_.rounds = c.Int("rounds", options_.rounds);
    if (c.values.contains("late"))
      options_.late = c.values.at("late") == "drop" ? LatePolicy::kDrop : LatePolicy::kMerge;
    if (c.values.contains("timeout")) options_.timeout = c.Duration("timeout", absl::ZeroDuration());
    if (c.verb == "stop") {
      options_.rounds = machine_->EarliestEnd();
      options_.stopped = true;
      out_.push_back(absl::StrCat("ends with ", options_.rounds, " rounds"));
    }
    machine_->SetOptions(options_, now_);
    Step(TimePassed{});
  }

  bool Show(const Command& c) {
    if (c.verb == "ask") {
      out_.push_back(Describe(machine_->Ask(c.Id(), c.incarnation)));
    } else if (c.verb == "state") {
      out_ = Describe(*machine_, options_.fragments, now_);
    } else if (c.verb == "restart") {
      Restart();
    } else {
      return false;
    }
    return true;
  }

  void Restart() {
    absl::StatusOr<RoundMachine> restored = RoundMachine::Restore(options_, durable_->recovered(), now_);
    if (!restored.ok()) {
      out_.push_back(restored.status().ToString());
      return;
    }
    machine_ = std::make_unique<RoundMachine>(*std::move(restored));
    if (held_) machine_->Hold(HeldBy::kOperator);
    Step(TimePassed{});
  }

  // A script may only report what the machine asked for.
  bool IsDue(const Command& c, RoundPhase phase) {
    const std::vector<RoundView> open = machine_->OpenRounds(c.Fragment(), now_);
    const bool due = !open.empty() && open.front().round == c.Int("round", 0) && open.front().phase == phase;
    if (!due) ADD_FAILURE() << c.verb << " round=" << c.Int("round", 0) << ": the machine has not asked for it";
    return due;
  }

  void Merged(const Command& c) {
    if (IsDue(c, RoundPhase::kMerging)) Step(MergeFinished{c.Fragment(), c.Int("round", 0)});
  }

  void Persisted(const Command& c) {
    if (!IsDue(c, RoundPhase::kCommitting)) return;
    Step(CommitPersisted{c.Fragment(), c.Int("round", 0)});
  }

  void Step(const RoundEvent& event) {
    durable_->Observe(event);
    for (const RoundEffect& effect : machine_->Step(event, now_)) {
      durable_->Observe(effect);
      out_.push_back(Describe(effect));
    }
  }

  static Digest DigestNumber(const Command& c) { return {0, static_cast<uint64_t>(c.Int("digest", 1))}; }

  RoundOptions options_;
  bool held_ = false;  // By an operator; durable.
  std::unique_ptr<RoundMachine> machine_;
  MonotonicTime now_;
  std::unique_ptr<Durable> durable_;
  std::vector<std::string> out_;
};

}  // namespace

std::string RunScenario(std::string_view script) {
  Runner runner;
  std::string out;
  std::vector<std::string> printed;
  bool recorded_output = false;  // Inside what an earlier run recorded.
  const auto end_block = [&] {
    if (!printed.empty()) absl::StrAppend(&out, "----\n", absl::StrJoin(printed, "\n"), "\n");
    printed.clear();
    recorded_output = false;
  };
  std::vector<std::string> lines = absl::StrSplit(std::string(script), '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  for (const std::string& line : lines) {
    if (line.empty()) {
      end_block();
      out += '\n';
    } else if (line == "----") {
      recorded_output = true;
    } else if (!recorded_output) {
      absl::StrAppend(&out, line, "\n");
      if (line[0] == '#') continue;
      for (std::string& print : runner.Run(line)) printed.push_back(std::move(print));
    }
  }
  end_block();
  return out;
}
}  // namespace diloco
