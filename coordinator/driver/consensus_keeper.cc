#include "coordinator/driver/consensus_keeper.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/outer/step_scalars_proto.h"
#include "coordinator/driver/publication.h"

namespace diloco {

std::vector<Digest> ConsensusArrays::ComputeDigests(const ParallelFor& parallel_for) const {
  std::vector<Digest> digests(fragments.size());
  parallel_for(static_cast<int64_t>(fragments.size()), [this, &digests](int64_t fragment) {
    digests[static_cast<size_t>(fragment)] = fragments[static_cast<size_t>(fragment)].ComputeDigest();
  });
  return digests;
}

std::vector<absl::Span<const float>> ConsensusArrays::InSnapshotOrder() const {
  std::vector<absl::Span<const float>> arrays;
  for (const Consensus& fragment : fragments) {
    arrays.push_back(fragment.parameters());
    for (const std::vector<float>& state : fragment.state()) {
      arrays.push_back(state);
    }
  }
  return arrays;
}

uint64_t ConsensusArrays::SizeBytes() const {
  uint64_t bytes = 0;
  for (const absl::Span<const float> array : InSnapshotOrder()) {
    bytes += array.size() * sizeof(float);
  }
  return bytes;
}

ConsensusArrays SeedConsensus(const Layout& layout, const OuterOptimizer* optimizer,
                              absl::Span<const float> parameters) {
  DILOCO_CHECK(parameters.size() == static_cast<size_t>(layout.element_count()));
  ConsensusArrays arrays;
  for (int f = 0; f < layout.fragment_count(); ++f) {
    const FragmentRange& range = layout.fragments()[static_cast<size_t>(f)];
    const absl::Span<const float> values =
        parameters.subspan(static_cast<size_t>(range.offset), static_cast<size_t>(range.count));
    arrays.fragments.emplace_back(optimizer, std::vector<float>(values.begin(), values.end()), layout.DecayedRanges(f));
  }
  return arrays;
}

absl::StatusOr<ConsensusArrays> RestoreConsensus(const Layout& layout, const OuterOptimizer* optimizer, int64_t version,
                                                 absl::Span<const float> raw) {
  const auto arrays_each = static_cast<size_t>(1 + optimizer->state_arrays);
  if (raw.size() != static_cast<size_t>(layout.element_count()) * arrays_each) {
    return absl::DataLossError(
        absl::StrFormat("the snapshot holds %d values where %d elements with %d arrays each belong; restore the data "
                        "folder",
                        raw.size(), layout.element_count(), arrays_each));
  }
  ConsensusArrays arrays;
  size_t offset = 0;
  for (int f = 0; f < layout.fragment_count(); ++f) {
    const FragmentRange& range = layout.fragments()[static_cast<size_t>(f)];
    std::vector<std::vector<float>> fragment;
    for (size_t i = 0; i < arrays_each; ++i) {
      const absl::Span<const float> values = raw.subspan(offset, static_cast<size_t>(range.count));
      fragment.emplace_back(values.begin(), values.end());
      offset += values.size();
    }
    std::vector<float> parameters = std::move(fragment.front());
    fragment.erase(fragment.begin());
    arrays.fragments.emplace_back(optimizer, version, std::move(parameters), std::move(fragment),
                                  layout.DecayedRanges(f));
  }
  return arrays;
}

absl::Status ApplyRound(const WholeRound& round, const Codec& downlink, const ParallelFor& parallel_for,
                        ConsensusArrays* arrays) {
  DILOCO_CHECK(round.size() == arrays->fragments.size());
  std::vector<absl::Status> statuses(round.size());
  parallel_for(static_cast<int64_t>(round.size()), [&](int64_t index) {
    const auto fragment = static_cast<size_t>(index);
    Consensus& consensus = arrays->fragments[fragment];
    const absl::StatusOr<std::vector<float>> average =
        DecodeDelta(*round[fragment], downlink, consensus.parameters().size());
    if (!average.ok()) {
      statuses[fragment] = average.status();
      return;
    }
    consensus.Apply(StepScalarsFromProto(round[fragment]->commit.scalars()), *average);
  });
  for (const absl::Status& status : statuses) {
    DILOCO_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

void ConsensusKeeper::Adopt(std::shared_ptr<ConsensusArrays> arrays, std::vector<Digest> digests,
                            std::map<std::string, std::vector<int64_t>> marks, std::optional<v1::StepScalars> scalars) {
  DILOCO_CHECK(!seeded() && arrays->fragments.size() == static_cast<size_t>(fragments_));
  arrays_ = std::move(arrays);
  version_ = arrays_->fragments.front().version();
  digests_ = std::move(digests);
  marks_ = std::move(marks);
  scalars_ = std::move(scalars);
}

void ConsensusKeeper::Add(std::shared_ptr<const PublishedDelta> delta) {
  DILOCO_CHECK(delta->round >= version_);
  WholeRound& round = pending_[delta->round];
  round.resize(static_cast<size_t>(fragments_));
  const auto fragment = static_cast<size_t>(delta->fragment);
  round[fragment] = std::move(delta);
}

bool ConsensusKeeper::HasWholeRound() const {
  const auto it = pending_.find(version_);
  return it != pending_.end() &&
         std::all_of(it->second.begin(), it->second.end(), [](const auto& delta) { return delta != nullptr; });
}

WholeRound ConsensusKeeper::NextRound() const {
  DILOCO_CHECK(HasWholeRound());
  return pending_.at(version_);
}

std::shared_ptr<ConsensusArrays> ConsensusKeeper::Begin() {
  DILOCO_CHECK(seeded() && !busy_);
  busy_ = true;
  return arrays_;
}

void ConsensusKeeper::FinishRead() {
  DILOCO_CHECK(busy_);
  busy_ = false;
}

void ConsensusKeeper::FinishApply(std::vector<Digest> digests) {
  DILOCO_CHECK(busy_);
  busy_ = false;
  for (const auto& delta : NextRound()) {
    RaiseMarks(delta->settled, fragments_, &marks_);
    scalars_ = delta->commit.scalars();
  }
  pending_.erase(version_);
  ++version_;
  digests_ = std::move(digests);
}

void RaiseMarks(const v1::SettledList& settled, int fragments, std::map<std::string, std::vector<int64_t>>* marks) {
  for (const v1::SettledContribution& line : settled.settled()) {
    if (line.id().fragment() >= static_cast<uint32_t>(fragments)) {
      continue;  // Nothing that the coordinator wrote.
    }
    std::vector<int64_t>& rounds = (*marks)[line.id().worker_id()];
    rounds.resize(static_cast<size_t>(fragments), -1);
    int64_t& mark = rounds[line.id().fragment()];
    mark = std::max(mark, line.id().round());
  }
}

}  // namespace diloco
