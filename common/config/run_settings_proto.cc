#include "common/config/run_settings_proto.h"

#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/limits.h"

namespace diloco {

v1::RunChange RunChangeToProto(const RunChange& change) {
  v1::RunChange out;
  out.set_from_round(change.from_round);
  for (const auto& [key, value] : change.settings) {
    v1::Setting* setting = out.add_settings();
    setting->set_key(key);
    setting->set_value(value);
  }
  return out;
}

google::protobuf::RepeatedPtrField<v1::RunChange> RunChangesToProto(absl::Span<const RunChange> changes) {
  google::protobuf::RepeatedPtrField<v1::RunChange> out;
  for (const RunChange& change : changes) *out.Add() = RunChangeToProto(change);
  return out;
}

std::vector<Setting> SettingsFromProto(const google::protobuf::RepeatedPtrField<v1::Setting>& settings) {
  std::vector<Setting> out;
  for (const v1::Setting& setting : settings) out.push_back({setting.key(), setting.value()});
  return out;
}

absl::StatusOr<RunSettings> RunSettingsFromProto(const RunConfig& config,
                                                 const google::protobuf::RepeatedPtrField<v1::RunChange>& changes) {
  if (changes.size() > kMaxRunChanges) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d changes of the run's settings are more than %d", changes.size(), kMaxRunChanges));
  }
  std::vector<RunChange> out;
  for (const v1::RunChange& change : changes) {
    if (change.from_round() < 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("a change of the run's settings from round %d on: rounds count from 0", change.from_round()));
    }
    out.push_back({change.from_round(), SettingsFromProto(change.settings())});
  }
  return RunSettings::Make(config, std::move(out));
}

}  // namespace diloco
