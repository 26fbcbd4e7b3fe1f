#include "tests/coordinator/round/durable.h"

#include <algorithm>
#include <variant>

namespace diloco {

Durable::Durable(int fragments) { recovered_.next_round.assign(static_cast<size_t>(fragments), 0); }

void Durable::Observe(const RoundEvent& event) {
  recovered_.seeded |= std::holds_alternative<RunSeeded>(event);
  recovered_.ended |= std::holds_alternative<EndPersisted>(event);
  if (const auto* commit = std::get_if<CommitPersisted>(&event)) RecordCommit(*commit);
}

void Durable::Observe(const RoundEffect& effect) {
  if (const auto* persist = std::get_if<PersistCommit>(&effect)) {
    persisting_[persist->fragment] = persist->settled;
  } else if (const auto* admit = std::get_if<AdmitWorker>(&effect)) {
    if (!admit->returning) RecordMember(*admit);
  } else if (const auto* departure = std::get_if<RecordDeparture>(&effect)) {
    Change(departure->worker, [](RecoveredRounds::Member& member) {
      member.left = true;
      member.draining = false;
    });
  } else if (const auto* drain = std::get_if<RecordDrain>(&effect)) {
    Change(drain->worker, [](RecoveredRounds::Member& member) { member.draining = true; });
  } else if (const auto* eviction = std::get_if<RecordEviction>(&effect)) {
    Change(eviction->worker, [](RecoveredRounds::Member& member) {
      member.evicted = true;
      member.draining = false;
    });
  } else if (const auto* readmission = std::get_if<RecordReadmission>(&effect)) {
    Change(readmission->worker, [](RecoveredRounds::Member& member) {
      member.left = true;
      member.evicted = false;
    });
  }
}

void Durable::Change(const std::string& worker, const std::function<void(RecoveredRounds::Member&)>& change) {
  for (RecoveredRounds::Member& member : recovered_.members) {
    if (member.worker == worker) change(member);
  }
}

void Durable::RecordMember(const AdmitWorker& admit) {
  RecoveredRounds::Member record{.worker = admit.worker,
                                 .incarnation = admit.incarnation,
                                 .first_round = admit.first_round,
                                 .left = false,
                                 .draining = false,
                                 .evicted = false,
                                 .resumes = admit.resumes,
                                 .settled_rounds = std::vector<int64_t>(recovered_.next_round.size(), -1)};
  // The newest record of a worker counts, and stands last: members are recovered in join order.
  for (const RecoveredRounds::Member& member : recovered_.members) {
    if (member.worker != admit.worker) continue;
    record.settled_rounds = member.settled_rounds;
    record.draining = member.draining;
  }
  std::erase_if(recovered_.members, [&](const auto& member) { return member.worker == admit.worker; });
  recovered_.members.push_back(record);
}

void Durable::RecordCommit(const CommitPersisted& commit) {
  const size_t fragment = static_cast<size_t>(commit.fragment);
  recovered_.next_round[fragment] = commit.round + 1;
  for (const Settled& line : persisting_[commit.fragment]) {
    for (RecoveredRounds::Member& member : recovered_.members) {
      int64_t& mark = member.settled_rounds[fragment];
      if (member.worker == line.id.worker) mark = std::max(mark, line.id.round);
    }
  }
}

}  // namespace diloco
