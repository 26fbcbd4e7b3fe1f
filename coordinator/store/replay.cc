#include "coordinator/store/replay.h"

#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {
namespace {

// The one message of a group that is not a global delta.
template <typename Message>
absl::StatusOr<Message> ParseSingle(const JournalGroup& group) {
  Message message;
  if (group.records.size() > 1 || (!group.records.empty() && !group.commit_payload.empty()) ||
      !message.ParseFromString(group.records.empty() ? group.commit_payload : group.records[0])) {
    return absl::DataLossError("the record does not hold what its kind says");
  }
  return message;
}

}  // namespace

void Replay::Start(SnapshotContent snapshot) {
  state_.snapshot = std::make_unique<v1::SnapshotRecord>(std::move(snapshot.record));
  state_.consensus = std::move(snapshot.consensus);
  state_.run = std::make_unique<v1::RunRecord>(state_.snapshot->run());
  for (const v1::MemberRecord& member : state_.snapshot->members()) AddMember(member);
  for (const v1::Evaluation& evaluation : state_.snapshot->evaluations()) AddEvaluation(evaluation);
}

absl::Status Replay::CheckRun(const std::string& run_id) const {
  if (state_.run == nullptr) return absl::DataLossError("the record of the run is missing before it");
  if (state_.run->run_id() == run_id) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("it belongs to run \"%s\" in the folder of run \"%s\"", run_id, state_.run->run_id()));
}

absl::Status Replay::ApplyGlobalDelta(JournalGroup group) {
  if (state_.snapshot == nullptr) return absl::DataLossError("a global delta before the first snapshot");
  auto delta = std::make_shared<PublishedDelta>();
  v1::SubscribeResponse settled;
  v1::SubscribeResponse commit;
  if (group.records.empty() || !settled.ParseFromString(group.records.back()) || !settled.has_settled() ||
      !commit.ParseFromString(group.commit_payload) || !commit.has_commit() ||
      group.records.size() != uint64_t{commit.commit().chunk_count()} + 1) {
    return absl::DataLossError("the record does not hold a whole global delta");
  }
  DILOCO_RETURN_IF_ERROR(CheckRun(commit.commit().run_id()));
  delta->commit = std::move(*commit.mutable_commit());
  delta->settled = std::move(*settled.mutable_settled());
  delta->messages = std::move(group.records);
  delta->messages.push_back(std::move(group.commit_payload));
  if (delta->commit.fragment() >= kMaxFragments) return absl::DataLossError("a fragment beyond every limit");
  delta->fragment = static_cast<int>(delta->commit.fragment());
  delta->round = delta->commit.round();

  int64_t& next_round = next_rounds_.try_emplace(delta->fragment, state_.snapshot->version()).first->second;
  if (delta->round < state_.snapshot->version()) return absl::OkStatus();
  if (delta->round < next_round) {
    if (seen_.at({delta->fragment, delta->round})->messages == delta->messages) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrFormat("fragment %d, round %d is there twice and differs", delta->fragment, delta->round));
  }
  if (delta->round > next_round) {
    return absl::DataLossError(absl::StrFormat("fragment %d continues with round %d, but round %d is missing",
                                               delta->fragment, delta->round, next_round));
  }
  ++next_round;
  seen_[{delta->fragment, delta->round}] = delta;
  state_.deltas.push_back(std::move(delta));
  return absl::OkStatus();
}

absl::Status Replay::Apply(const std::string& path, JournalGroup group) {
  const uint64_t offset = group.offset;
  const absl::Status status = [&]() -> absl::Status {
    switch (group.kind) {
      case GroupKind::kRun: {
        DILOCO_ASSIGN_OR_RETURN(v1::RunRecord run, ParseSingle<v1::RunRecord>(group));
        if (state_.run != nullptr) DILOCO_RETURN_IF_ERROR(CheckRun(run.run_id()));
        // Written behind the snapshot of a new generation, before the coordinator began anew with that.
        if (state_.run != nullptr && run.generation() < state_.run->generation()) return absl::OkStatus();
        state_.run = std::make_unique<v1::RunRecord>(std::move(run));
        return absl::OkStatus();
      }
      case GroupKind::kMember: {
        DILOCO_ASSIGN_OR_RETURN(const v1::MemberRecord member, ParseSingle<v1::MemberRecord>(group));
        DILOCO_RETURN_IF_ERROR(CheckRun(member.run_id()));
        // As above: a new generation begins without the members of the one before.
        if (IsOfThisGeneration(member)) AddMember(member);
        return absl::OkStatus();
      }
      case GroupKind::kEvaluation: {
        DILOCO_ASSIGN_OR_RETURN(const v1::EvaluationRecord record, ParseSingle<v1::EvaluationRecord>(group));
        DILOCO_RETURN_IF_ERROR(CheckRun(record.run_id()));
        if (IsOfThisGeneration(record)) AddEvaluation(record.evaluation());
        return absl::OkStatus();
      }
      case GroupKind::kGlobalDelta:
        return ApplyGlobalDelta(std::move(group));
      case GroupKind::kEnd: {
        DILOCO_ASSIGN_OR_RETURN(v1::EndRecord end, ParseSingle<v1::EndRecord>(group));
        DILOCO_RETURN_IF_ERROR(CheckRun(end.run_id()));
        state_.end = std::make_unique<v1::EndRecord>(std::move(end));
        return absl::OkStatus();
      }
    }
    return absl::DataLossError(absl::StrFormat("a record of the unknown kind %d", static_cast<uint32_t>(group.kind)));
  }();
  if (status.ok()) return status;
  return DamagedFile(path, offset, std::string(status.message()));
}

RecoveredState Replay::Finish() && {
  for (auto& [id, member] : members_) state_.members.push_back(std::move(member));
  for (auto& [key, evaluation] : evaluations_) state_.evaluations.push_back(std::move(evaluation));
  return std::move(state_);
}

}  // namespace diloco
