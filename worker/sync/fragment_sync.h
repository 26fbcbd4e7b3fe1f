// PURE: one fragment on a worker, between the global deltas that arrive and the outer loop. Holds averages back until a
// stop may apply them, and checks the consensus against the digests that commit records carry. The sync thread owns
// it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/codec/codec.h"
#include "worker/client/delta_assembler.h"
#include "worker/outer/fragment_outer.h"

namespace diloco {

class FragmentSync {
 public:
  struct Options {
    int fragment = 0;
    std::string worker_id;
    const Codec* downlink = nullptr;
    FragmentOuter::Options outer;
  };

  FragmentSync(Options options, Consensus consensus);
  // As a checkpoint has it.
  FragmentSync(Options options, FragmentOuter::State state);
  // Without the averages that are held back.
  FragmentOuter::State Save() const { return outer_.Save(); }

  // Takes the global delta of round received(), to be applied by ApplyNext.
  void Hold(GlobalDelta delta);

  // Applies the oldest average that is held back; received() > version().
  // Errors, kDataLoss: the consensus is not the coordinator's. kInvalidArgument: scalars out of range.
  absl::Status ApplyNext();

  // The consensus at the end of the run. Errors: as above.
  absl::Status CheckFinal(const Digest& expected) const;

  void Contribute(OwnContribution contribution) { outer_.Contribute(std::move(contribution)); }
  FragmentOuter::Staged Stage() const { return outer_.Stage(); }
  std::vector<float> LookAhead() const { return outer_.LookAhead(); }

  // Takes a snapshot that is newer than received(); `scalars` as for FragmentOuter::Resync.
  void Resync(Consensus consensus, const StepScalars& scalars, int64_t settled_round);

  int64_t version() const { return outer_.consensus().version(); }
  // Version that the consensus has once everything held back is applied.
  int64_t received() const { return version() + static_cast<int64_t>(held_.size()); }
  const Consensus& consensus() const { return outer_.consensus(); }
  const StepScalars& next_scalars() const { return outer_.next_scalars(); }
  // A copy at received(). Errors: as ApplyNext.
  absl::StatusOr<Consensus> Newest() const;
  // Digest of the consensus at version().
  const Digest& digest() const { return digests_.back().second; }

 private:
  absl::Status CheckDigest(int64_t version, const Digest& expected) const;
  void Remember();

  Options options_;
  FragmentOuter outer_;
  std::deque<GlobalDelta> held_;
  std::deque<std::pair<int64_t, Digest>> digests_;  // Of the newest versions, ascending.
  std::vector<float> average_;
};

}  // namespace diloco
