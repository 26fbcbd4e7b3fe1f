// The round machine's rules a second time, as slowly and plainly as possible: everything that ever happened is kept in
// lists, nothing is derived ahead of time, and every question scans the lists. Shares no code with the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/round/round_events.h"
#include "coordinator/round/round_machine.h"

namespace diloco {

class NaiveModel {
 public:
  explicit NaiveModel(const RoundOptions& options) : options_(options) {}

  // The effects that the event must have, without reasons.
  std::vector<RoundEffect> Step(const RoundEvent& event, MonotonicTime now);
  // No round closes from now on, or may close again, from the next step on.
  void SetHeld(bool held) { held_ = held; }
  void SetOptions(const RoundOptions& options) { options_ = options; }
  // The coordinator died: what was not durable is forgotten.
  void Restart(MonotonicTime now);

  Verdict Ask(const ContributionId& id, uint64_t incarnation) const;
  bool IsMember(const std::string& worker, uint64_t incarnation) const;
  std::string Seeder() const;
  std::string Evaluator() const;
  bool Draining(const std::string& worker) const;
  bool Participating(const std::string& worker) const;
  int64_t NextRound(int fragment) const;
  int64_t SettledRound(const std::string& worker, int fragment) const;
  int64_t EarliestEnd() const;
  std::optional<MonotonicTime> NextDeadline() const;
  bool ended() const { return end_published_; }

 private:
  struct Admission {
    std::string worker;
    uint64_t incarnation = 0;
    int64_t first_round = 0;
    bool left = false;
    bool back = false;  // After the end, to hear how it ended; not durable.
    bool evicted = false;
    bool draining = false;
    std::optional<int64_t> last_round;  // It has stopped; not durable.
    bool gone() const { return evicted || (left && !back); }
  };
  struct Sighting {
    std::string worker;
    uint64_t incarnation = 0;
    MonotonicTime time;
  };
  enum class Kind { kContribution, kRefusal, kAbstention };
  struct Answered {
    ContributionId id;
    Kind kind = Kind::kContribution;
    Digest digest;
    double weight = 0;
    bool expelled = false;  // Its worker was evicted since.
    MonotonicTime time;
    int64_t step = 0;  // In which it was taken.
  };
  // A set that is fixed; a committed one stays in its list for ever.
  struct Set {
    int fragment = 0;
    int64_t round = 0;
    std::vector<Settled> settled;
    double participating_weight = 0;
  };
  // Whether the quorum of a round was met at the end of a step.
  struct QuorumNote {
    int fragment = 0;
    int64_t round = 0;
    MonotonicTime time;
    bool met = false;
    int64_t step = 0;
  };
  struct Opening {
    int fragment = 0;
    int64_t round = 0;
    MonotonicTime time;
  };
  // Since when a round's quorum has been met without a break.
  struct Met {
    MonotonicTime since;
    int64_t step = 0;
  };
  struct Sides {
    int present = 0, abstained = 0, awaited = 0, later = 0;
    bool met = false;
  };

  // Lists, scanned.
  const Admission* Newest(const std::string& worker) const;
  std::vector<const Admission*> NewestOfEach() const;  // In admission order.
  MonotonicTime LastHeard(const Admission& admission) const;
  bool Alive(const Admission& admission) const;
  std::set<std::string> AliveWorkers() const;
  std::set<std::string> StayingWorkers() const;  // Alive and not draining.
  bool IsThrough(const Admission& admission, int64_t round) const;
  const Answered* Answer(const ContributionId& id) const;  // Unsettled and not expelled.
  const Answered* Unsettled(const ContributionId& id) const;
  const Set* BeingMerged(int fragment) const;
  double NewestWeight(const std::string& worker) const;
  int64_t OldestOpenRound() const;

  // Rules.
  bool Training() const { return training_ && !end_requested_; }
  int Quorum(int fragment, int64_t round) const;
  RecordEviction Evict(const std::string& worker);
  int64_t FirstRound(const std::string& joiner) const;
  Sides SidesOf(int fragment, int64_t round) const;
  std::optional<Met> MetSince(int fragment, int64_t round) const;
  std::optional<MonotonicTime> Opened(int fragment, int64_t round) const;
  absl::Duration GraceWindow(int fragment) const;
  // When the oldest round of a fragment, its quorum met, waits no longer.
  std::optional<MonotonicTime> WaitEnd(int fragment) const;
  Set FixSet(int fragment) const;
  std::vector<RoundEffect> Consequences(const RoundEvent& event);
  RoundEffect Admit(const WorkerJoined& event);
  std::optional<RoundEffect> Take(const Answered& answered, uint64_t incarnation);
  void CloseWhatCanClose(std::vector<RoundEffect>* effects);

  RoundOptions options_;
  bool held_ = false;
  MonotonicTime now_;
  int64_t step_ = 0;  // Steps so far.
  bool seeded_ = false;
  bool training_ = false;
  bool end_requested_ = false;
  bool end_published_ = false;
  std::vector<Admission> admissions_;
  std::vector<Sighting> sightings_;
  std::set<std::string> alive_before_;
  std::vector<Answered> answered_;  // Since the last restart.
  std::vector<Set> merging_;        // At most one a fragment.
  std::vector<Set> committed_;
  std::vector<QuorumNote> quorum_notes_;
  std::vector<Opening> openings_;
};

}  // namespace diloco
