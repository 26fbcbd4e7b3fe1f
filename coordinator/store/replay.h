// Rebuilds the state from a snapshot and the groups of the journals behind it, and checks that they fit together.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"

#include "coordinator/store/journal_reader.h"
#include "coordinator/store/snapshot_file.h"
#include "coordinator/store/store.h"

namespace diloco {

class Replay {
 public:
  // The snapshot comes first, if there is one, then the groups in their order.
  void Start(SnapshotContent snapshot);
  // `path`: the journal's, for errors. Global deltas that the snapshot covers, or that were seen before (a new journal
  // begins with those its snapshot lacks), are passed over. Errors: kDataLoss, naming file and offset.
  absl::Status Apply(const std::string& path, JournalGroup group);
  RecoveredState Finish() &&;

 private:
  absl::Status ApplyGlobalDelta(JournalGroup group);
  absl::Status CheckRun(const std::string& run_id) const;
  void AddMember(const v1::MemberRecord& member) { members_[member.worker_id()] = member; }
  template <typename Record>
  bool IsOfThisGeneration(const Record& record) const {
    return !record.has_generation() || record.generation() >= state_.run->generation();
  }
  void AddEvaluation(const v1::Evaluation& evaluation) {
    evaluations_[{evaluation.version(), evaluation.worker_id()}] = evaluation;
  }

  RecoveredState state_;
  std::map<int, int64_t> next_rounds_;  // By fragment; absent: the snapshot's version.
  std::map<std::pair<int, int64_t>, std::shared_ptr<const PublishedDelta>> seen_;
  std::map<std::string, v1::MemberRecord> members_;
  std::map<std::pair<int64_t, std::string>, v1::Evaluation> evaluations_;
};

}  // namespace diloco
