// PURE: who is a member, under which incarnation, and for how long. Part of the round machine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/round/round_events.h"
#include "coordinator/round/round_machine.h"

namespace diloco {

// Everything about one worker. Records are never removed: a worker that left may have contributions on their way.
struct Member {
  uint64_t incarnation = 0;
  MemberState state = MemberState::kAlive;
  int64_t join_order = 0;    // Ascends with each admission of an incarnation.
  int64_t first_round = 0;   // That it is waited for in.
  int64_t oldest_round = 0;  // That anything is taken for: of a worker with a checkpoint, what it still holds too.
  bool resumes = false;      // It was told that it goes on where its checkpoint stands.
  MonotonicTime last_heard;
  bool draining = false;              // It is to leave; only while it is alive or lost.
  std::optional<int64_t> last_round;  // Draining, and it takes no further steps: the last round that it contributes to.
  double weight = 1;                  // Of its newest accepted contribution; 1 until there is one.
  int64_t weight_round = -1;          // The round of that contribution.
  std::vector<int64_t> settled_rounds;  // Newest settled round by fragment; -1: none.

  // Neither left nor evicted.
  bool Belongs() const { return state == MemberState::kAlive || state == MemberState::kLost; }
  // It will contribute nothing to this round: it left, is evicted, or is draining and has stopped before it or is lost.
  bool IsDoneBefore(int64_t round) const {
    return !Belongs() || (draining && (state == MemberState::kLost || (last_round && *last_round < round)));
  }
};

// What whoever speaks for an evicted worker is told.
std::string EvictionText(const std::string& worker);

class Membership {
 public:
  // `options` outlive the object, and may change.
  explicit Membership(const RoundOptions* options);

  // A member that recovery found, alive with a fresh lease, or left for good, or evicted.
  void Restore(const RecoveredRounds::Member& recovered, MonotonicTime now);

  // Renews the lease of a member that has not left; one that was lost is alive again.
  void Heard(const std::string& worker, uint64_t incarnation, MonotonicTime now);
  // A fresh lease for every member that is alive, whatever it had left of the old one.
  void RenewLeases(MonotonicTime now);
  // Admits or refuses; a new incarnation starts with `first_round`.
  RoundEffect Join(const WorkerJoined& event, int64_t first_round, bool ended, MonotonicTime now);
  // A member that was admitted with a checkpoint.
  void TakeFrom(const std::string& worker, int64_t oldest_round, bool resumes);
  void Stop(const WorkerStopped& event);
  void Leave(const WorkerLeft& event, std::vector<RoundEffect>* effects);
  // By an operator. False: without effect, see the events.
  bool Drain(const std::string& worker);
  bool Evict(const std::string& worker);
  bool Readmit(const std::string& worker);
  void ExpireLeases(MonotonicTime now, std::vector<RoundEffect>* effects);

  // By id, whatever its state and incarnation; nullptr: never joined.
  const Member* Find(const std::string& worker) const;
  // The member, alive or lost, under exactly this incarnation; else nullptr.
  const Member* Current(const std::string& worker, uint64_t incarnation) const;
  const std::map<std::string, Member>& all() const { return members_; }
  int CountAlive() const;
  // Alive and not draining: how many, the first in join order, the first in id order; empty: none.
  int CountStaying() const;
  std::string FirstJoined() const;
  std::string FirstById() const;
  std::optional<MonotonicTime> NextLeaseEnd() const;

  void NoteWeight(const std::string& worker, int64_t round, double weight);
  void NoteSettled(const ContributionId& id);

  // True once after any change of who is alive or from which round on; clears it.
  bool TakeChanged();

 private:
  void Admit(const std::string& worker, uint64_t incarnation, int64_t first_round, MonotonicTime now);
  // It left or is evicted.
  void End(const std::string& worker, MemberState state);

  const RoundOptions* const options_;
  std::map<std::string, Member> members_;
  int64_t admissions_ = 0;
  bool changed_ = false;
};

}  // namespace diloco
