// What goes into the round machine and what comes out. Metadata only: never bytes of a tensor.
//
// Completion order is the crash contract, and the driver keeps it:
//   StartMerge -> MergeFinished -> PersistCommit (synced) -> CommitPersisted -> PublishGlobalDelta.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/digest.h"

namespace diloco {

// Names one contribution.
struct ContributionId {
  std::string worker;
  int fragment = 0;
  int64_t round = 0;
  friend auto operator<=>(const ContributionId&, const ContributionId&) = default;
};

enum class Settlement {
  kMerged,
  kDroppedLate,
  kDroppedRefused,
  kDroppedOutOfOrder,
  kDroppedRunEnded,
  kDroppedEvicted,
};

// One line of a settled list.
struct Settled {
  ContributionId id;
  Digest digest;
  Settlement settlement = Settlement::kMerged;
  double weight = 0;  // > 0 when merged, else 0.
  friend bool operator==(const Settled&, const Settled&) = default;
};

// The answer to an uploaded contribution; the wire's ContributionVerdict.
enum class Verdict { kWanted, kStored, kSettled, kRefused, kTooEarly };

// ---- Events ----

// A worker asks to join, its layout checked by the driver. The same incarnation again is harmless.
struct WorkerJoined {
  std::string worker;
  uint64_t incarnation = 0;
  bool id_in_session = true;  // A session of this id is open. False: an older incarnation is replaced at once.
  // By fragment, the first round that it has not contributed to, of a worker with a checkpoint; empty: it has none.
  std::vector<int64_t> resumes = {};
};
// A heartbeat, or any other sign of life, of a member.
struct WorkerHeard {
  std::string worker;
  uint64_t incarnation = 0;
};
// A draining member takes no further steps: it contributes to no round after `last_round`; -1: to none at all. Said
// again and again, so that it need not be durable; ignored of a member that is not draining.
struct WorkerStopped {
  std::string worker;
  uint64_t incarnation = 0;
  int64_t last_round = -1;
};
// It leaves for good.
struct WorkerLeft {
  std::string worker;
  uint64_t incarnation = 0;
};
// An operator wants a member to finish its round, see what it sent settled, and leave. Without effect on one that left,
// is evicted or is draining already.
struct DrainAsked {
  std::string worker;
};
// An operator throws a member out: what it has sent and no fixed set holds is dropped, and its id is refused, whatever
// the incarnation, until EvictionLifted. Without effect on an id that never joined or is evicted.
struct EvictionAsked {
  std::string worker;
};
// An operator lets an evicted id join again. Without effect on any other.
struct EvictionLifted {
  std::string worker;
};
// Snapshot 0 is durable.
struct RunSeeded {};
// A contribution is held whole and its content is good.
struct ContributionStored {
  ContributionId id;
  uint64_t incarnation = 0;
  Digest digest;
  double weight = 0;
};
// A contribution is whole, and its content is not acceptable: settled as dropped by the round's global delta.
struct ContributionRefused {
  ContributionId id;
  uint64_t incarnation = 0;
  Digest digest;
  std::string reason;
};
// The worker has nothing for this round.
struct WorkerAbstained {
  ContributionId id;
  uint64_t incarnation = 0;
  std::string reason;
};
struct MergeFinished {
  int fragment = 0;
  int64_t round = 0;
};
struct CommitPersisted {
  int fragment = 0;
  int64_t round = 0;
};
struct EndPersisted {};
// The coordinator itself was stopped, and could hear nobody: every member that was alive before gets a fresh lease.
struct LeasesRenewed {};
// Time passed. Also implied by every other event.
struct TimePassed {};

using RoundEvent = std::variant<WorkerJoined, WorkerHeard, WorkerStopped, WorkerLeft, DrainAsked, EvictionAsked,
                                EvictionLifted, RunSeeded, ContributionStored, ContributionRefused, WorkerAbstained,
                                MergeFinished, CommitPersisted, EndPersisted, LeasesRenewed, TimePassed>;

// ---- Effects, in the order in which they are to be carried out ----

// Make the membership durable, then answer the join.
struct AdmitWorker {
  std::string worker;
  uint64_t incarnation = 0;
  int64_t first_round = 0;
  bool returning = false;  // The same incarnation joined again: nothing to make durable.
  // It goes on inside the rounds that it named, as the member that it was. Durable too: it may ask again.
  bool resumes = false;
};
struct RefuseWorker {
  std::string worker;
  uint64_t incarnation = 0;
  enum class Reason { kIdInUse, kRunEnded, kTooManyMembers, kEvicted } reason = Reason::kIdInUse;
  std::string message;
};
// Its lease ended. It stays a member, is not waited for, and may come back.
struct WorkerLost {
  std::string worker;
};
// Make "left for good" durable.
struct RecordDeparture {
  std::string worker;
  uint64_t incarnation = 0;
};
// Make "is to leave" durable, then tell the worker.
struct RecordDrain {
  std::string worker;
};
// Make the eviction durable and end what is open of the worker. `dropped`: contributions that were held of it, which
// the next rounds settle as dropped.
struct RecordEviction {
  std::string worker;
  int dropped = 0;
};
// Make durable that an evicted id may join again.
struct RecordReadmission {
  std::string worker;
};
// Answer an upload, abstention or refusal. Verdict kWanted never occurs here. kStored: held, or held before; for an
// abstention: noted. Bytes that came with any other verdict are the driver's to discard, unless it holds the same id.
struct AnswerContribution {
  ContributionId id;
  Verdict verdict = Verdict::kStored;
  std::string reason;
};
// The set is fixed: average these, in this order (worker id, round).
struct StartMerge {
  int fragment = 0;
  int64_t round = 0;
  std::vector<Settled> merged;
};
// Make the global delta durable: chunks, settled list, commit record; sync.
struct PersistCommit {
  int fragment = 0;
  int64_t round = 0;
  std::vector<Settled> settled;     // Merged and dropped, in (worker id, round) order.
  double participating_weight = 0;  // > 0; at least that of any one member that takes part.
};
struct PublishGlobalDelta {
  int fragment = 0;
  int64_t round = 0;
};
// Settled, merged or dropped: nobody asks for these bytes any more.
struct ReleaseContribution {
  ContributionId id;
};
// Every round is committed: make the end record durable. Sorted by fragment, then (worker id, round).
struct PersistEnd {
  std::vector<Settled> settled;
};
struct PublishEnd {};

using RoundEffect = std::variant<AdmitWorker, RefuseWorker, WorkerLost, RecordDeparture, RecordDrain, RecordEviction,
                                 RecordReadmission, AnswerContribution, StartMerge, PersistCommit, PublishGlobalDelta,
                                 ReleaseContribution, PersistEnd, PublishEnd>;

}  // namespace diloco
