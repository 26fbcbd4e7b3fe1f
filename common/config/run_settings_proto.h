// The settings that may change in mid-run, on the wire and in the journal.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "google/protobuf/repeated_ptr_field.h"

#include "common/config/run_settings.h"
#include "diloco/v1/types.pb.h"

namespace diloco {

v1::RunChange RunChangeToProto(const RunChange& change);
google::protobuf::RepeatedPtrField<v1::RunChange> RunChangesToProto(absl::Span<const RunChange> changes);
std::vector<Setting> SettingsFromProto(const google::protobuf::RepeatedPtrField<v1::Setting>& settings);

// Errors, kInvalidArgument: more changes than there may be, a from_round below 0, or of RunSettings::Make.
absl::StatusOr<RunSettings> RunSettingsFromProto(const RunConfig& config,
                                                 const google::protobuf::RepeatedPtrField<v1::RunChange>& changes);

}  // namespace diloco
