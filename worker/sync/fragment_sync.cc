#include "worker/sync/fragment_sync.h"

#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/outer/step_scalars_proto.h"

namespace diloco {
namespace {

// Commit records speak of versions at most this far back, or they are not checked.
constexpr size_t kDigestsKept = 64;

std::vector<OwnSettlement> OwnSettlements(const v1::SettledList& list, const std::string& worker_id) {
  std::vector<OwnSettlement> own;
  for (const v1::SettledContribution& settled : list.settled()) {
    if (settled.id().worker_id() == worker_id) {
      own.push_back({settled.id().round(), Digest::FromBytes(settled.digest().value()),
                     settled.settlement() == v1::SETTLEMENT_MERGED, settled.weight()});
    }
  }
  return own;
}

}  // namespace

FragmentSync::FragmentSync(Options options, Consensus consensus)
    : options_(std::move(options)), outer_(options_.outer, std::move(consensus)) {
  average_.resize(outer_.consensus().parameters().size());
  Remember();
}

FragmentSync::FragmentSync(Options options, FragmentOuter::State state)
    : options_(std::move(options)), outer_(options_.outer, std::move(state)) {
  average_.resize(outer_.consensus().parameters().size());
  Remember();
}

void FragmentSync::Remember() {
  digests_.emplace_back(version(), outer_.consensus().ComputeDigest());
  if (digests_.size() > kDigestsKept) {
    digests_.pop_front();
  }
}

void FragmentSync::Hold(GlobalDelta delta) {
  DILOCO_CHECK(delta.commit.round() == received());
  held_.push_back(std::move(delta));
}

absl::Status FragmentSync::CheckDigest(int64_t version, const Digest& expected) const {
  for (const auto& [known, digest] : digests_) {
    if (known == version && digest != expected) {
      return absl::DataLossError(
          absl::StrFormat("consensus of fragment %d at version %d has digest %s here and %s at the coordinator; start "
                          "this worker again, and look for a damaged or different build if it repeats",
                          options_.fragment, version, digest.Hex(), expected.Hex()));
    }
  }
  return absl::OkStatus();
}

absl::Status FragmentSync::ApplyNext() {
  DILOCO_CHECK(!held_.empty());
  const GlobalDelta& delta = held_.front();
  DILOCO_RETURN_IF_ERROR(
      CheckDigest(delta.commit.consensus_version(), Digest::FromBytes(delta.commit.consensus_digest().value())));
  options_.downlink->decode(delta.payload, absl::MakeSpan(average_));
  DILOCO_RETURN_IF_ERROR(outer_.Apply(StepScalarsFromProto(delta.commit.scalars()), average_,
                                      OwnSettlements(delta.settled, options_.worker_id)));
  held_.pop_front();
  Remember();
  return absl::OkStatus();
}

absl::StatusOr<Consensus> FragmentSync::Newest() const {
  Consensus newest = outer_.consensus();
  std::vector<float> average(average_.size());
  for (const GlobalDelta& delta : held_) {
    const StepScalars scalars = StepScalarsFromProto(delta.commit.scalars());
    DILOCO_RETURN_IF_ERROR(ValidateStepScalars(scalars));
    options_.downlink->decode(delta.payload, absl::MakeSpan(average));
    newest.Apply(scalars, average);
  }
  return newest;
}

absl::Status FragmentSync::CheckFinal(const Digest& expected) const { return CheckDigest(version(), expected); }

void FragmentSync::Resync(Consensus consensus, const StepScalars& scalars, int64_t settled_round) {
  DILOCO_CHECK(consensus.version() > received());
  held_.clear();
  digests_.clear();
  outer_.Resync(std::move(consensus), scalars, settled_round);
  Remember();
}

}  // namespace diloco
