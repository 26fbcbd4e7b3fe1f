// What must hold for every stream of events and effects, whatever the rules decide: a checker apart from the model.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/round/round_events.h"
#include "coordinator/round/round_machine.h"

namespace diloco {

//  - what a merge takes is in (worker id, round) order, and was answered kStored with the same digest and weight;
//  - global deltas are published in order of rounds, each once, as they were persisted and after that;
//  - nothing is settled twice, and every contribution that was answered kStored is settled by a global delta or the
//    end record, unless the coordinator died in between;
//  - bytes are released when, and only when, what settles them is published;
//  - what was stored of an evicted worker is merged only where the set was fixed before, nothing else is dropped for an
//    eviction, and an evicted id is admitted only once the eviction was lifted.
class Auditor {
 public:
  explicit Auditor(int fragments) : published_rounds_(static_cast<size_t>(fragments), 0) {}

  void Observe(const RoundEvent& event, const std::vector<RoundEffect>& effects);
  // The coordinator died.
  void Restart();
  // The run is over: is anything left unsettled?
  void CheckNothingIsLeft();

  // Sentences; empty: all is well.
  const std::vector<std::string>& complaints() const { return complaints_; }
  int merged() const { return merged_; }
  int dropped() const { return static_cast<int>(settled_.size()) - merged_; }

 private:
  struct Stored {
    Digest digest;
    double weight = 0;
  };

  void Check(const RoundEvent& event, const RoundEffect& effect);
  void CheckMerge(const StartMerge& merge);
  void CheckEviction(const RecordEviction& eviction);
  void Settle(const std::vector<Settled>& lines);
  void Require(bool condition, const std::string& complaint);

  std::vector<int64_t> published_rounds_;                  // By fragment.
  std::map<std::pair<int, int64_t>, StartMerge> merging_;  // By (fragment, round).
  std::map<std::pair<int, int64_t>, PersistCommit> persisting_;
  std::vector<Settled> ending_;
  std::map<ContributionId, Stored> stored_;  // Answered kStored, not settled.
  std::map<ContributionId, Settled> settled_;
  std::set<std::string> evicted_;      // Not lifted.
  std::set<ContributionId> expelled_;  // Not settled.
  std::set<ContributionId> to_release_;
  int merged_ = 0;
  std::vector<std::string> complaints_;
};

}  // namespace diloco
