// The coordinator's consensus of all fragments. It advances a whole round at a time, so that snapshots and checkpoints
// hold every fragment at the same version; rounds that some fragments have committed before others wait here.
//
// The keeper is the driver's and not thread-safe. Its arrays are worked on elsewhere, by one task at a time: while a
// task has them (Begin .. Finish), nothing else is begun.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/base/digest.h"
#include "common/codec/codec.h"
#include "common/layout/layout.h"
#include "common/merge/merge.h"
#include "common/outer/consensus.h"
#include "coordinator/store/store.h"
#include "diloco/v1/journal.pb.h"
#include "diloco/v1/types.pb.h"

namespace diloco {

// By fragment, all at the same version.
struct ConsensusArrays {
  std::vector<Consensus> fragments;

  // Of each fragment, computed on `parallel_for`.
  std::vector<Digest> ComputeDigests(const ParallelFor& parallel_for) const;
  // In the order of SnapshotRecord: parameters, then outer state, fragment by fragment.
  std::vector<absl::Span<const float>> InSnapshotOrder() const;
  uint64_t SizeBytes() const;
};

// Version 0 from the whole model's parameters, fragment-major. Shapes: parameters [layout.element_count()].
ConsensusArrays SeedConsensus(const Layout& layout, const OuterOptimizer* optimizer,
                              absl::Span<const float> parameters);
// From the raw part of a snapshot. Errors, kDataLoss: a size that does not fit the layout.
absl::StatusOr<ConsensusArrays> RestoreConsensus(const Layout& layout, const OuterOptimizer* optimizer, int64_t version,
                                                 absl::Span<const float> raw);

// One round of every fragment, in fragment order.
using WholeRound = std::vector<std::shared_ptr<const PublishedDelta>>;
// Takes one outer step of every fragment. Errors, kDataLoss: a delta that does not decode; `arrays` is then undefined.
absl::Status ApplyRound(const WholeRound& round, const Codec& downlink, const ParallelFor& parallel_for,
                        ConsensusArrays* arrays);

class ConsensusKeeper {
 public:
  // `fragments` >= 1. Not seeded: no arrays, version 0.
  explicit ConsensusKeeper(int fragments) : fragments_(fragments) {}

  // Sets the arrays, with their digests, and what the deltas applied so far have settled.
  void Adopt(std::shared_ptr<ConsensusArrays> arrays, std::vector<Digest> digests,
             std::map<std::string, std::vector<int64_t>> marks, std::optional<v1::StepScalars> scalars);
  bool seeded() const { return arrays_ != nullptr; }

  // A committed delta; rounds of a fragment come in order.
  void Add(std::shared_ptr<const PublishedDelta> delta);
  // True when every fragment's delta of the round `version()` is there.
  bool HasWholeRound() const;
  WholeRound NextRound() const;

  // Hands out the arrays for one task; CHECKs that no other one has them.
  std::shared_ptr<ConsensusArrays> Begin();
  bool busy() const { return busy_; }
  // The task only read them.
  void FinishRead();
  // The task applied NextRound().
  void FinishApply(std::vector<Digest> digests);

  int64_t version() const { return version_; }
  const std::vector<Digest>& digests() const { return digests_; }
  // Newest round settled by the deltas applied so far, by worker and fragment; -1: none.
  const std::map<std::string, std::vector<int64_t>>& marks() const { return marks_; }
  // Of the newest applied delta; nullopt at version 0.
  const std::optional<v1::StepScalars>& scalars() const { return scalars_; }

 private:
  const int fragments_;
  std::shared_ptr<ConsensusArrays> arrays_;
  bool busy_ = false;
  int64_t version_ = 0;
  std::vector<Digest> digests_;
  std::map<std::string, std::vector<int64_t>> marks_;
  std::optional<v1::StepScalars> scalars_;
  std::map<int64_t, WholeRound> pending_;  // By round; slots of fragments that have not committed it are null.
};

// Raises the marks of a delta's settled list.
void RaiseMarks(const v1::SettledList& settled, int fragments, std::map<std::string, std::vector<int64_t>>* marks);

}  // namespace diloco
