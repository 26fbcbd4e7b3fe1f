// What a driver's journal would hold after the effects so far, and what recovery would make of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "coordinator/round/round_events.h"
#include "coordinator/round/round_machine.h"

namespace diloco {

class Durable {
 public:
  explicit Durable(int fragments);

  // Told every event that goes into the machine, then every effect that comes out.
  void Observe(const RoundEvent& event);
  void Observe(const RoundEffect& effect);

  const RecoveredRounds& recovered() const { return recovered_; }

 private:
  void Change(const std::string& worker, const std::function<void(RecoveredRounds::Member&)>& change);
  void RecordMember(const AdmitWorker& admit);
  void RecordCommit(const CommitPersisted& commit);

  RecoveredRounds recovered_;
  std::map<int, std::vector<Settled>> persisting_;  // By fragment.
};

}  // namespace diloco
