// PURE: membership, quorum, grace, late and duplicate rules of every fragment's rounds. No clock, thread, RNG, log,
// metric, protobuf or tensor: the same (state, event, now) gives the same effects. Not thread-safe: the driver owns it.
//
//   run:      seeding --RunSeeded--> waiting for workers --`workers` alive--> training --EndPersisted--> ended
//   round:    collecting --Decide closes--> merging --MergeFinished--> committing --CommitPersisted--> committed
//
// A round closes when its quorum is met and nobody else is awaited, or its grace window (fixed, or adapted to earlier
// rounds: arrivals.h) or its timeout is over. Without its quorum it is held, for as long as that takes.
//
// Rounds of a fragment close in order; at most RoundOptions::open_rounds are open. A contribution counts once and
// whole; each one that was answered kStored is settled by exactly one global delta or by the end record. One that comes
// after its round has closed is late: the next round that closes merges or drops it. Those of a worker and fragment
// settle in round order: one that is older than what is settled already is not taken any more.
//
// A member that joins in mid-run starts with the round after the oldest open one, so that nobody waits for it there,
// unless that round cannot reach its quorum without it. A member is lost when its lease ends, and is alive again as
// soon as it is heard. One that comes back with a checkpoint goes on inside its rounds while none of them has closed
// and nothing newer of its own was accepted; whether or not, what it sent before and is not settled is still taken.
//
// Alive and participating are separate facts: participating is who the oldest open round waits for or holds something
// of. An operator may drain a member (it goes on until it says in which round it stopped, and no later one waits for
// it; one that is lost while draining is not waited for at all) or evict it (out at once: no round waits for it, and
// what no fixed set holds of it is settled as dropped by the next rounds).
//
// A quorum of fewer than `workers` stands, whoever is there: a round that cannot reach it is held. A quorum of all,
// `workers`, means all members that are not done with the run: one that left, is evicted, or is drained lowers it, down
// to 1, so that taking a worker out does not hold the run; one that is lost does not.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/base/clock.h"
#include "common/config/run_config.h"
#include "coordinator/round/arrivals.h"
#include "coordinator/round/round_events.h"

namespace diloco {

struct RoundOptions {
  int workers = 1;              // The run starts when this many have joined.
  int quorum = 1;               // Distinct workers with a contribution of the round itself. [1, workers].
  absl::Duration grace_window;  // After quorum, for the rest of the members that are alive.
  std::optional<AdaptiveGrace> adaptive_grace;  // In the place of grace_window.
  std::optional<absl::Duration>
      timeout;           // After the opening of a round, for the rest; the quorum has no end to wait for.
  absl::Duration lease;  // Silence after which a member is lost.
  LatePolicy late = LatePolicy::kMerge;
  int64_t rounds = 1;       // Length of the run.
  bool stopped = false;     // An operator ended it early: the end record settles what is sent for later rounds.
  int64_t open_rounds = 1;  // RunConfig::OpenRounds().
  int fragments = 1;
  int max_members = 1;  // Members ever, lost and left ones among them.

  static RoundOptions From(const RunConfig& config, int fragments);
};

enum class RunPhase { kSeeding, kWaitingForWorkers, kTraining, kEnded };
enum class RoundPhase { kCollecting, kMerging, kCommitting, kCommitted };
enum class MemberState { kAlive, kLost, kLeft, kEvicted };
// What keeps rounds from closing, whatever Decide says.
enum class HeldBy { kLostDisk, kOverdueSnapshot, kOperator };

// A member as the machine sees it, for status and tests.
struct MemberView {
  std::string worker;
  uint64_t incarnation = 0;
  MemberState state = MemberState::kAlive;
  bool draining = false;  // Alive or lost, and to leave.
  bool participating = false;
  int64_t first_round = 0;
  MonotonicTime last_heard;
};

// One round of one fragment.
struct RoundView {
  int fragment = 0;
  int64_t round = 0;
  RoundPhase phase = RoundPhase::kCollecting;
  MonotonicTime opened;
  int quorum = 0;                      // Distinct workers that it needs, or needed.
  absl::Duration grace_window;         // How long it waits for the rest once the quorum is met.
  std::string reason;                  // Decide's sentence: why it has not closed, or how it closed.
  std::vector<std::string> present;    // Workers whose contribution of this round is held or merged.
  std::vector<std::string> awaited;    // Alive members that owe one.
  std::vector<std::string> abstained;  // Abstained or refused.
  std::vector<Settled> settled;        // From kMerging on.
};

// What recovery found: the machine starts again from here. Nothing that was staged survives.
struct RecoveredRounds {
  bool seeded = false;
  bool ended = false;
  std::vector<int64_t> next_round;  // By fragment: the oldest round that has not committed.
  struct Member {
    std::string worker;
    uint64_t incarnation = 0;
    int64_t first_round = 0;
    bool left = false;
    bool draining = false;
    bool evicted = false;
    bool resumes = false;                 // As it was admitted.
    std::vector<int64_t> settled_rounds;  // By fragment; -1: none.
  };
  std::vector<Member> members;  // Given a fresh lease; alive until it ends, but for those that left or are evicted.
};

class RoundMachine {
 public:
  explicit RoundMachine(const RoundOptions& options);
  // A run that had started goes on. Step(TimePassed) is due at once: only the end record may be missing.
  // Errors, kInvalidArgument: sizes that do not fit `options`.
  static absl::StatusOr<RoundMachine> Restore(const RoundOptions& options, const RecoveredRounds& recovered,
                                              MonotonicTime now);
  RoundMachine(RoundMachine&&) noexcept;
  RoundMachine& operator=(RoundMachine&&) noexcept;
  ~RoundMachine();

  std::vector<RoundEffect> Step(const RoundEvent& event, MonotonicTime now);
  // Each of these three takes effect with the next Step.
  //
  // While there is any cause the run does not start, no round closes and the run does not end; what has closed is still
  // merged and committed. Time goes on: leases end, and grace windows of rounds that have their quorum.
  void Hold(HeldBy cause);
  void Release(HeldBy cause);
  // Other rules from now on, for every round that has not closed: quorum, grace window, timeout, lease, late, rounds
  // and `stopped` may differ, the rest not. `rounds` is at least EarliestEnd() and, once ended(), as before.
  void SetOptions(const RoundOptions& options, MonotonicTime now);
  // The fewest rounds that the run can end with: the oldest open round is its last, or the first one that no fragment
  // has gone beyond.
  int64_t EarliestEnd() const;
  // Oldest round that not every fragment has closed; `rounds`: there is none.
  int64_t OldestUnclosedRound() const;
  // What the end record settles is fixed.
  bool ended() const;

  // Whether the bytes of a contribution are wanted, before they are taken in. kWanted: send them. kStored and kRefused
  // speak of what is held under the id; kRefused also answers what no member may send. kSettled covers rounds before
  // the member's first one, and everything once the end record is under way.
  Verdict Ask(const ContributionId& id, uint64_t incarnation) const;
  // True for a member that is alive under this incarnation.
  bool IsMember(const std::string& worker, uint64_t incarnation) const;

  // When Step(TimePassed) is due next; nullopt: only other events matter.
  std::optional<MonotonicTime> NextDeadline() const;

  RunPhase phase() const;
  // One sentence: what the run is doing, or what it waits for.
  std::string Reason(MonotonicTime now) const;
  // The member that sends the initial parameters: of those alive and not draining the first that joined. Empty: none,
  // or seeded.
  std::string Seeder() const;
  // The member that evaluates: of those alive and not draining the one with the smallest id, after the end too. Empty:
  // none.
  std::string Evaluator() const;
  // Oldest round of this fragment that has not committed; `rounds` when all have.
  int64_t NextRound(int fragment) const;
  int64_t OldestOpenRound() const;  // Over all fragments.
  // Newest settled round of a worker; -1: none.
  int64_t SettledRound(const std::string& worker, int fragment) const;
  std::vector<MemberView> Members() const;  // By id.
  // Open rounds of a fragment, oldest first; `now` enters the reason.
  std::vector<RoundView> OpenRounds(int fragment, MonotonicTime now) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace diloco
