// Between the machine's words and the wire's.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/repeated_ptr_field.h"

#include "common/base/digest.h"
#include "coordinator/round/round_events.h"
#include "coordinator/round/round_machine.h"
#include "diloco/v1/admin.pb.h"
#include "diloco/v1/types.pb.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {

v1::Digest DigestToProto(const Digest& digest);
// Never negative, as everywhere on the wire.
google::protobuf::Duration DurationToProto(absl::Duration duration);
google::protobuf::RepeatedPtrField<v1::SettledContribution> SettledToProto(absl::Span<const Settled> settled);

v1::RunState RunStateToProto(RunPhase phase);
v1::RoundState RoundStateToProto(RoundPhase phase);
v1::ContributionVerdict VerdictToProto(Verdict verdict);

// At most kMaxReasonBytes, cut at a character.
std::string BoundedReason(const std::string& reason);

}  // namespace diloco
