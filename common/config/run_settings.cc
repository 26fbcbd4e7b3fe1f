#include "common/config/run_settings.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/config/run_config_keys.h"
#include "common/config/yaml_reader.h"
#include "common/outer/method.h"

namespace diloco {
namespace {

// The shortest text that is read as this number again.
std::string NumberText(double value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  DILOCO_CHECK(error == std::errc());
  return std::string(text, end);
}

std::string DurationText(const std::optional<absl::Duration>& value, std::string_view word) {
  return value ? absl::FormatDuration(*value) : std::string(word);
}

struct Changeable {
  std::string_view key;
  Reach reach;
  std::string (*text)(const RunConfig& config);
  bool (*has)(const RunConfig& config) = [](const RunConfig&) { return true; };  // It means something there.
};

bool IsAdaptive(const RunConfig& config) { return !config.rounds.grace_window; }

// A key has its range in run_config_keys.h. Rates are by round, so that all workers take the same step; of the rest a
// run that is stuck must not have to wait for a later round.
constexpr Changeable kChangeable[] = {
    {kLengthKey, Reach::kByRound, [](const RunConfig& c) { return absl::StrCat(c.run.rounds); }},
    {"outer.rate", Reach::kByRound, [](const RunConfig& c) { return NumberText(c.outer.rate); },
     [](const RunConfig& c) { return FindMethod(c.method)->payload != Payload::kGradient; }},
    {"inner.rate", Reach::kByRound, [](const RunConfig& c) { return NumberText(c.inner.rate); }},
    {"inner.final_ratio", Reach::kByRound, [](const RunConfig& c) { return NumberText(c.inner.final_ratio); }},
    {"rounds.quorum", Reach::kAtOnce, [](const RunConfig& c) { return absl::StrCat(c.rounds.quorum); }},
    {"rounds.grace_window", Reach::kAtOnce,
     [](const RunConfig& c) { return DurationText(c.rounds.grace_window, "adaptive"); }},
    {"rounds.grace_floor", Reach::kAtOnce, [](const RunConfig& c) { return DurationText(c.rounds.grace_floor, ""); },
     IsAdaptive},
    {"rounds.grace_cap", Reach::kAtOnce, [](const RunConfig& c) { return DurationText(c.rounds.grace_cap, ""); },
     IsAdaptive},
    {"rounds.timeout", Reach::kAtOnce, [](const RunConfig& c) { return DurationText(c.rounds.timeout, "none"); }},
    {"rounds.late", Reach::kAtOnce,
     [](const RunConfig& c) { return std::string(c.rounds.late == LatePolicy::kMerge ? "merge" : "drop"); }},
    {"rounds.lease", Reach::kAtOnce, [](const RunConfig& c) { return DurationText(c.rounds.lease, ""); }},
    {"rounds.snapshot_every", Reach::kAtOnce, [](const RunConfig& c) { return absl::StrCat(c.rounds.snapshot_every); }},
    {"eval.every", Reach::kAtOnce, [](const RunConfig& c) { return absl::StrCat(c.eval.every); }},
};

const Changeable* Find(std::string_view key) {
  const auto* found = std::find_if(std::begin(kChangeable), std::end(kChangeable),
                                   [key](const Changeable& each) { return each.key == key; });
  return found == std::end(kChangeable) ? nullptr : found;
}

std::pair<std::string, std::string> Split(std::string_view key) {
  const size_t dot = key.find('.');
  return {std::string(key.substr(0, dot)), std::string(key.substr(dot + 1))};
}

// A plain scalar, and nothing that YAML could take for more.
bool IsPlain(std::string_view value) {
  return !value.empty() && value.size() <= kMaxNameBytes &&
         value.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-") ==
             std::string_view::npos;
}

std::string Shown(std::string_view text) {
  return absl::StrFormat("\"%s\"", absl::CHexEscape(std::string(text.substr(0, kMaxNameBytes))));
}

// `settings` as a part of a configuration file. Errors: as of WithSettings.
absl::StatusOr<std::string> PartialFile(absl::Span<const Setting> settings) {
  std::map<std::string, std::string> sections;
  std::set<std::string> seen;
  for (const auto& [key, value] : settings) {
    DILOCO_RETURN_IF_ERROR(ReachOf(key).status());
    if (!seen.insert(key).second) {
      return absl::InvalidArgumentError(absl::StrFormat("%s is given twice; give it once", key));
    }
    if (!IsPlain(value)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: %s is not a value; write it as in the configuration file", key, Shown(value)));
    }
    const auto [section, name] = Split(key);
    absl::StrAppend(&sections[section], "  ", name, ": ", value, "\n");
  }
  return absl::StrJoin(sections, "", [](std::string* out, const auto& section) {
    absl::StrAppend(out, section.first, ":\n", section.second);
  });
}

enum class Together { kChecked, kTaken };

absl::StatusOr<RunConfig> Overlay(const RunConfig& config, absl::Span<const Setting> settings, Together together) {
  DILOCO_ASSIGN_OR_RETURN(const std::string part, PartialFile(settings));
  YamlReader reader(part, "", Extent::kPart);
  RunConfig out = config;
  internal::VisitRunConfig(reader, out);
  out.model = config.model;  // The walk drops a section that is not in the file.
  if (reader.ok() && together == Together::kChecked) internal::CheckRounds(reader, out);
  if (!reader.ok()) return absl::InvalidArgumentError(reader.message());
  if (FindMethod(out.method)->payload == Payload::kGradient) {
    if (reader.Has("outer.rate")) {
      return absl::InvalidArgumentError(
          absl::StrFormat("outer.rate: method %s takes inner.rate; change that", out.method));
    }
    out.outer.rate = out.inner.rate;
  }
  return out;
}

}  // namespace

std::vector<std::string> ChangeableKeys() {
  std::vector<std::string> keys;
  for (const Changeable& each : kChangeable) {
    if (each.key != kLengthKey) keys.emplace_back(each.key);
  }
  return keys;
}

absl::StatusOr<Reach> ReachOf(std::string_view key) {
  if (const Changeable* found = Find(key)) return found->reach;
  return absl::InvalidArgumentError(absl::StrFormat("%s may not change in mid-run; what may: %s, and the run's length",
                                                    Shown(key), absl::StrJoin(ChangeableKeys(), ", ")));
}

absl::StatusOr<RunConfig> WithSettings(const RunConfig& config, absl::Span<const Setting> settings) {
  return Overlay(config, settings, Together::kChecked);
}

std::vector<Setting> CurrentSettings(const RunConfig& config) {
  std::vector<Setting> settings;
  for (const Changeable& each : kChangeable) {
    if (each.has(config)) settings.push_back({std::string(each.key), each.text(config)});
  }
  return settings;
}

std::vector<Setting> DifferingSettings(const RunConfig& was, const RunConfig& is) {
  std::vector<Setting> settings;
  for (const Changeable& each : kChangeable) {
    if (each.has(is) && each.text(was) != each.text(is)) settings.push_back({std::string(each.key), each.text(is)});
  }
  return settings;
}

// With the averages of V rounds, a fragment of offset o lets a worker take the steps before (V + open rounds) * H + o,
// and an overlap that is not a whole number of rounds adds itself.
int64_t FirstRoundNotBegun(const RunConfig& config, absl::Span<const int64_t> offsets, int64_t published) {
  const int64_t last = offsets.empty() ? 0 : *std::max_element(offsets.begin(), offsets.end());
  const int64_t beyond = last + config.overlap % config.inner_steps;
  return published + config.OpenRounds() + (beyond + config.inner_steps - 1) / config.inner_steps;
}

RunSettings::RunSettings(const RunConfig& config) : phases_({{.from_round = 0, .config = config}}) {}

absl::StatusOr<RunSettings> RunSettings::Make(const RunConfig& config, std::vector<RunChange> changes) {
  RunSettings settings(config);
  // from_round never descends for one key, so that in this order too the newest value of each comes last.
  std::vector<const RunChange*> by_round;
  for (const RunChange& change : changes) by_round.push_back(&change);
  std::stable_sort(by_round.begin(), by_round.end(),
                   [](const RunChange* a, const RunChange* b) { return a->from_round < b->from_round; });
  for (const RunChange* change : by_round) {
    // They were checked against each other when they were made; the file may be another one now.
    DILOCO_ASSIGN_OR_RETURN(RunConfig next, Overlay(settings.newest(), change->settings, Together::kTaken));
    if (settings.phases_.back().from_round == change->from_round) settings.phases_.pop_back();
    settings.phases_.push_back({.from_round = change->from_round, .config = std::move(next)});
  }
  settings.changes_ = std::move(changes);
  return settings;
}

const RunConfig& RunSettings::At(int64_t round) const {
  DILOCO_CHECK(round >= 0);
  const auto later = std::find_if(phases_.begin() + 1, phases_.end(),
                                  [round](const Phase& phase) { return phase.from_round > round; });
  return std::prev(later)->config;
}

std::string EffectiveYaml(const std::string& file_yaml, const RunSettings& settings) {
  if (settings.changes().empty()) return file_yaml;
  YAML::Node file = YAML::Load(file_yaml);
  for (const Changeable& each : kChangeable) {
    const auto [section, name] = Split(each.key);
    if (each.has(settings.newest())) {
      file[section][name] = each.text(settings.newest());
    } else if (file[section].IsMap()) {
      file[section].remove(name);
    }
  }
  YAML::Emitter out;
  out << file;
  return absl::StrCat(out.c_str(), "\n");
}

}  // namespace diloco
