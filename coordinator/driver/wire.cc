#include "coordinator/driver/wire.h"

#include <algorithm>

#include "common/base/limits.h"

namespace diloco {
namespace {

v1::Settlement SettlementToProto(Settlement settlement) {
  switch (settlement) {
    case Settlement::kMerged:
      return v1::SETTLEMENT_MERGED;
    case Settlement::kDroppedLate:
      return v1::SETTLEMENT_DROPPED_LATE;
    case Settlement::kDroppedRefused:
      return v1::SETTLEMENT_DROPPED_REFUSED;
    case Settlement::kDroppedOutOfOrder:
      return v1::SETTLEMENT_DROPPED_OUT_OF_ORDER;
    case Settlement::kDroppedRunEnded:
      return v1::SETTLEMENT_DROPPED_RUN_ENDED;
    case Settlement::kDroppedEvicted:
      return v1::SETTLEMENT_DROPPED_EVICTED;
  }
  return v1::SETTLEMENT_UNSPECIFIED;
}

}  // namespace

v1::Digest DigestToProto(const Digest& digest) {
  v1::Digest proto;
  proto.set_value(digest.Bytes());
  return proto;
}

google::protobuf::Duration DurationToProto(absl::Duration duration) {
  duration = std::max(duration, absl::ZeroDuration());
  google::protobuf::Duration proto;
  proto.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
  return proto;
}

google::protobuf::RepeatedPtrField<v1::SettledContribution> SettledToProto(absl::Span<const Settled> settled) {
  google::protobuf::RepeatedPtrField<v1::SettledContribution> list;
  for (const Settled& line : settled) {
    v1::SettledContribution* proto = list.Add();
    proto->mutable_id()->set_worker_id(line.id.worker);
    proto->mutable_id()->set_fragment(static_cast<uint32_t>(line.id.fragment));
    proto->mutable_id()->set_round(line.id.round);
    *proto->mutable_digest() = DigestToProto(line.digest);
    proto->set_settlement(SettlementToProto(line.settlement));
    proto->set_weight(line.weight);
  }
  return list;
}

v1::RunState RunStateToProto(RunPhase phase) {
  switch (phase) {
    case RunPhase::kSeeding:
      return v1::RUN_STATE_SEEDING;
    case RunPhase::kWaitingForWorkers:
      return v1::RUN_STATE_WAITING_FOR_WORKERS;
    case RunPhase::kTraining:
      return v1::RUN_STATE_TRAINING;
    case RunPhase::kEnded:
      return v1::RUN_STATE_ENDED;
  }
  return v1::RUN_STATE_UNSPECIFIED;
}

v1::RoundState RoundStateToProto(RoundPhase phase) {
  switch (phase) {
    case RoundPhase::kCollecting:
      return v1::ROUND_STATE_COLLECTING;
    case RoundPhase::kMerging:
      return v1::ROUND_STATE_MERGING;
    case RoundPhase::kCommitting:
      return v1::ROUND_STATE_COMMITTING;
    case RoundPhase::kCommitted:
      return v1::ROUND_STATE_COMMITTED;
  }
  return v1::ROUND_STATE_UNSPECIFIED;
}

v1::ContributionVerdict VerdictToProto(Verdict verdict) {
  switch (verdict) {
    case Verdict::kWanted:
      return v1::CONTRIBUTION_VERDICT_UNSPECIFIED;
    case Verdict::kStored:
      return v1::CONTRIBUTION_VERDICT_STORED;
    case Verdict::kSettled:
      return v1::CONTRIBUTION_VERDICT_SETTLED;
    case Verdict::kRefused:
      return v1::CONTRIBUTION_VERDICT_REFUSED;
    case Verdict::kTooEarly:
      return v1::CONTRIBUTION_VERDICT_TOO_EARLY;
  }
  return v1::CONTRIBUTION_VERDICT_UNSPECIFIED;
}

std::string BoundedReason(const std::string& reason) {
  if (reason.size() <= kMaxReasonBytes) {
    return reason;
  }
  size_t end = kMaxReasonBytes;
  while (end > 0 && (static_cast<unsigned char>(reason[end]) & 0xC0) == 0x80) {
    --end;  // Not inside a UTF-8 character.
  }
  return reason.substr(0, end);
}

}  // namespace diloco
