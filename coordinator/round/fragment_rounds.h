// PURE: the rounds of one fragment, from collecting to committed. Part of the round machine.
//
// Every answer of a worker that no commit has settled is one entry of one map, ordered as it is merged; whether it is
// early, on time or late follows from its round and the state of the rounds, and is stored nowhere.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/digest.h"
#include "coordinator/round/decide.h"
#include "coordinator/round/membership.h"
#include "coordinator/round/round_events.h"
#include "coordinator/round/round_machine.h"

namespace diloco {

// What a contribution would be answered, and why, where that needs saying.
struct Answer {
  Verdict verdict = Verdict::kWanted;
  std::string reason;
};

class FragmentRounds {
 public:
  // `options` outlive the object, and may change: see OptionsChanged.
  FragmentRounds(int fragment, int64_t next_round, const RoundOptions* options);

  // Opens every round that the window reaches; from then on contributions are taken.
  void OpenWindow(MonotonicTime now);
  // Rounds that are beyond the run's end now are not open any more; all others are looked at anew.
  void OptionsChanged(MonotonicTime now);

  // By rules of this fragment alone: kWanted, or kStored and kRefused for what is held, kSettled, kTooEarly.
  Answer Classify(const std::string& worker, const Member& member, int64_t round) const;
  // `digest` equals that of what is held for the id.
  bool HoldsDigest(const ContributionId& id, const Digest& digest) const;
  // Each only where Classify says kWanted; an abstention only for a round that still collects.
  void Store(const ContributionStored& event, MonotonicTime now);
  void Refuse(const ContributionRefused& event);
  void Abstain(const WorkerAbstained& event);
  bool Collects(int64_t round) const;
  // Its set is fixed: what comes for it now is late.
  bool HasClosed(int64_t round) const;
  // Drops what is held of an evicted worker and no fixed set holds; returns how many contributions that is. They stay
  // as lines to be settled.
  int Expel(const std::string& worker);

  // Closes the oldest round when Decide says so and the run is not held. Does nothing when nothing relevant has changed
  // since the last call: an answer, a commit, the membership or the hold (`changed`), or a grace window or timeout that
  // has ended.
  void Advance(const Membership& members, bool changed, bool held, MonotonicTime now,
               std::vector<RoundEffect>* effects);
  PersistCommit FinishMerge(int64_t round);
  // The round is committed: returns what it settled, and opens the next one.
  std::vector<Settled> FinishCommit(int64_t round, MonotonicTime now);
  // What the end record settles, once every round is committed.
  std::vector<Settled> Leftovers() const;

  int64_t next_round() const { return next_round_; }
  bool finished() const { return next_round_ == options_->rounds; }
  // Oldest round whose set is not fixed.
  int64_t FirstUnclosed() const { return next_round_ + (FixedSet() != nullptr ? 1 : 0); }
  // Newest round with something held of this worker; -1: none.
  int64_t NewestHeld(const std::string& worker) const;
  // The oldest round cannot reach its quorum without `worker`.
  bool NeedsWorker(const std::string& worker, const Membership& members) const;
  // The oldest round holds the member's contribution, or expects one.
  bool TakesPart(const std::string& worker, const Member& member) const;
  // When the oldest round, its quorum met, waits no longer.
  std::optional<MonotonicTime> WaitEnd() const;
  std::vector<RoundView> Views(const Membership& members, bool held, MonotonicTime now) const;

 private:
  struct Contribution {
    Digest digest;
    double weight = 0;
  };
  struct Refusal {
    Digest digest;
    std::string reason;
  };
  struct Abstention {};
  // A contribution of a worker that was evicted since.
  struct Expelled {
    Digest digest;
  };
  using Key = std::pair<std::string, int64_t>;  // Worker, round.
  using Entry = std::variant<Contribution, Refusal, Abstention, Expelled>;

  // The set is fixed.
  struct Closed {
    std::vector<Settled> settled;
    double participating_weight = 0;
    int quorum = 0;
    std::string reason;
  };
  struct Collecting {
    std::optional<MonotonicTime> quorum_since;
  };
  struct Merging : Closed {};
  struct Committing : Closed {};
  struct Round {
    MonotonicTime opened;
    std::variant<Collecting, Merging, Committing> phase;
  };

  // The oldest round's set, once it is fixed.
  const Closed* FixedSet() const;
  // How long a round waits after its quorum.
  GraceWindow Grace(int64_t round) const;
  // What a round needs, see RoundMachine.
  int Quorum(const Membership& members, int64_t round) const;
  // What a worker said of a round; not of one that was evicted since.
  const Entry* FindAnswer(const std::string& worker, int64_t round) const;
  const Entry* Find(const std::string& worker, int64_t round) const;
  // Whether the round is one that this member is there for. It may go on from a checkpoint behind a round whose
  // contribution an eviction has dropped: that one it does not send again.
  bool IsDue(const std::string& worker, const Member& member, int64_t round) const;
  RoundFacts Facts(size_t index, const Membership& members) const;
  void Close(const Membership& members, int quorum, std::string reason, std::vector<RoundEffect>* effects);
  std::vector<Settled> SettledBy(int64_t round, const Membership& members) const;
  // The settled line of an entry, were it a contribution that ends as `settlement`; nullopt for an abstention.
  std::optional<Settled> LineFor(const Key& key, const Entry& entry, Settlement settlement) const;
  double ParticipatingWeight(int64_t round, const std::vector<Settled>& settled, const Membership& members) const;

  int fragment_;
  const RoundOptions* options_;
  int64_t next_round_;        // Oldest round that has not committed.
  std::deque<Round> rounds_;  // next_round_ and what follows it.
  std::map<Key, Entry> held_;
  Arrivals arrivals_;
  bool changed_ = false;  // Since the last Advance.
};

}  // namespace diloco
