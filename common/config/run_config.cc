#include "common/config/run_config.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

#include "common/config/run_config_keys.h"

namespace diloco {
namespace {

int64_t DefaultOverlap(const Method& method, int64_t inner_steps) {
  switch (method.overlap) {
    case Overlap::kNone:
      return 0;
    case Overlap::kSteps:
      return std::min<int64_t>(1, inner_steps - 1);
    case Overlap::kRounds:
      break;
  }
  return inner_steps;
}

// What an absent key means where that depends on another one.
void FillDefaults(const YamlReader& reader, const Method& method, RunConfig& config) {
  if (method.payload == Payload::kGradient) {
    if (!reader.Has("inner_steps")) config.inner_steps = 1;
    if (!reader.Has("fragments.count")) config.fragments.cut.count = 1;
  }
  if (!reader.Has("outer.optimizer")) config.outer.optimizer = method.default_optimizer;
  if (!reader.Has("wire.uplink")) config.wire.uplink = method.default_uplink;
  if (!reader.Has("wire.downlink")) config.wire.downlink = method.default_downlink;
  if (!reader.Has("overlap")) config.overlap = DefaultOverlap(method, config.inner_steps);
  if (!reader.Has("max_late")) config.max_late = method.default_max_late;
  if (method.overlap == Overlap::kSteps) {
    const bool cut_given = reader.Has("fragments.count") || reader.Has("fragments.layers");
    if (!cut_given && !reader.Has("fragments.layers_each")) config.fragments.cut.layers_each = 3;
    if (!reader.Has("fragments.offsets")) config.fragments.offsets = "spread";
  }
  if (!reader.Has("rounds.quorum")) config.rounds.quorum = config.run.workers;
  if (config.model.has_value() && !reader.Has("model.ffn")) config.model->ffn = 4 * config.model->width;
}

void CheckOverlap(YamlReader& reader, const Method& method, const RunConfig& config) {
  const int64_t overlap = config.overlap;
  switch (method.overlap) {
    case Overlap::kNone:
      if (overlap == 0) return;
      return reader.Contradiction({"overlap"},
                                  absl::StrFormat("overlap: method %s does not overlap; remove the key", method.name));
    case Overlap::kSteps:
      if (overlap < config.inner_steps) return;
      return reader.Contradiction(
          {"overlap"}, absl::StrFormat("overlap: %d is not less than inner_steps, %d, as method %s needs", overlap,
                                       config.inner_steps, method.name));
    case Overlap::kRounds:
      if (overlap > 0 && overlap % config.inner_steps == 0 && overlap / config.inner_steps <= kMaxOverlapRounds) return;
      return reader.Contradiction(
          {"overlap"}, absl::StrFormat("overlap: %d is not 1 to %d times inner_steps, %d, as method %s needs", overlap,
                                       kMaxOverlapRounds, config.inner_steps, method.name));
  }
}

// Each layer of the model is in exactly one of the fragments that are written out.
void CheckLayers(YamlReader& reader, const RunConfig& config) {
  const auto fail = [&](int layer, std::string_view what) {
    reader.Contradiction({"fragments.layers"}, absl::StrFormat("fragments.layers: layer %d %s", layer, what));
  };
  std::set<int> seen;
  for (const std::vector<int>& fragment : config.fragments.cut.layers) {
    for (const int layer : fragment) {
      if (!seen.insert(layer).second) return fail(layer, "is in two fragments");
      if (config.model.has_value() && layer >= config.model->layers) return fail(layer, "is not one of the model's");
    }
  }
  if (seen.empty() || !config.model.has_value()) return;
  for (int layer = 0; layer < config.model->layers; ++layer) {
    if (!seen.contains(layer)) return fail(layer, "of the model is in none of the fragments; add it to one");
  }
}

void CheckMethod(YamlReader& reader, const Method& method, const RunConfig& config) {
  CheckOverlap(reader, method, config);
  if (method.default_max_late == 0 && config.max_late != 0) {
    reader.Contradiction({"max_late"},
                         absl::StrFormat("max_late: method %s allows only 0; remove the key", config.method));
  }
  if (method.after != AfterBoundary::kMix && reader.Has("streaming")) {
    reader.Contradiction({"streaming"},
                         absl::StrFormat("streaming: method %s has none; remove the section", config.method));
  }
  if (method.after != AfterBoundary::kLookahead && reader.Has("lookahead")) {
    reader.Contradiction({"lookahead"},
                         absl::StrFormat("lookahead: method %s has none; remove the section", config.method));
  }
  if (method.after != AfterBoundary::kPrivateLookahead && reader.Has("blend")) {
    reader.Contradiction({"blend"},
                         absl::StrFormat("blend: method %s does not blend; remove the section", config.method));
  }
  if (method.payload == Payload::kGradient && config.inner_steps != 1) {
    reader.Contradiction({"inner_steps"},
                         absl::StrFormat("inner_steps: method %s averages every step; remove the key", config.method));
  }
  if (method.payload == Payload::kGradient && reader.Has("inner.optimizer")) {
    reader.Contradiction(
        {"inner.optimizer"},
        absl::StrFormat("inner.optimizer: method %s has outer.optimizer in its place; remove the key", config.method));
  }
  const CutRule& cut = config.fragments.cut;
  if (method.payload == Payload::kGradient && (cut.count != 1 || cut.layers_each != 0 || !cut.layers.empty())) {
    reader.Contradiction(
        {"fragments.count", "fragments.layers_each", "fragments.layers"},
        absl::StrFormat("fragments: method %s clips by the norm of the whole average, so that it needs "
                        "one fragment; remove the section",
                        config.method));
  }
}

void CheckFragments(YamlReader& reader, const RunConfig& config) {
  int ways = 0;
  for (const char* key : {"fragments.count", "fragments.layers_each", "fragments.layers"}) {
    if (reader.Has(key) && ++ways == 2) {
      reader.Contradiction({key}, absl::StrFormat("%s: the fragments are given already; keep one of count, layers_each "
                                                  "and layers",
                                                  key));
    }
  }
  if (reader.Has("fragments.pattern") && config.fragments.cut.layers_each == 0) {
    reader.Contradiction({"fragments.pattern"}, "fragments.pattern: only layers_each has one; remove the key");
  }
  for (const int64_t offset : config.fragments.offset_list) {
    if (offset >= config.inner_steps) {
      reader.Contradiction(
          {"fragments.offsets"},
          absl::StrFormat("fragments.offsets: %d is not less than inner_steps, %d", offset, config.inner_steps));
    }
  }
  CheckLayers(reader, config);
}

// Look-ahead folds outer steps into a sum where they are linear, and only there.
void CheckLinear(YamlReader& reader, const Method& method, const RunConfig& config) {
  if (!LooksAhead(method) || FindOuterOptimizer(config.outer.optimizer)->linear) return;
  if (method.after == AfterBoundary::kPrivateLookahead) {
    reader.Contradiction({"outer.optimizer"},
                         absl::StrFormat("outer.optimizer: %s is not linear, as method %s needs; use nesterov or sgd",
                                         config.outer.optimizer, config.method));
  } else if (!config.lookahead.shared_momentum) {
    reader.Contradiction({"lookahead.momentum", "outer.optimizer"},
                         absl::StrFormat("lookahead.momentum: optimizer %s is not linear, as `own` needs; use `shared`",
                                         config.outer.optimizer));
  }
}

// Numbers of the outer optimizer: written, preset by it, or the inner section's where the payload is the gradient.
void FillOuter(YamlReader& reader, const Method& method, RunConfig& config) {
  const OuterPresets& presets = FindOuterOptimizer(config.outer.optimizer)->presets;
  const auto has_none = [&](const std::string& path) {
    if (!reader.Has(path)) return;
    reader.Contradiction({path},
                         absl::StrFormat("%s: optimizer %s has none; remove the key", path, config.outer.optimizer));
  };
  const auto fill = [&](const std::string& key, std::optional<double> preset, std::optional<double> inner,
                        double& value) {
    const std::string path = "outer." + key;
    const bool from_inner = inner.has_value() && method.payload == Payload::kGradient;
    if (!preset.has_value()) {
      has_none(path);
      if (from_inner) has_none("inner." + key);
      value = 0;
    } else if (from_inner) {
      if (reader.Has(path)) {
        reader.Contradiction({path},
                             absl::StrFormat("%s: method %s takes inner.%s; remove the key", path, config.method, key));
      }
      value = *inner;
    } else if (!reader.Has(path)) {
      value = *preset;
    }
  };
  fill("rate", presets.rate, config.inner.rate, config.outer.rate);
  fill("momentum", presets.momentum, std::nullopt, config.outer.momentum);
  fill("beta1", presets.beta1, config.inner.beta1, config.outer.beta1);
  fill("beta2", presets.beta2, config.inner.beta2, config.outer.beta2);
  fill("epsilon", presets.epsilon, config.inner.epsilon, config.outer.epsilon);
}

void CheckWire(YamlReader& reader, const WireSection& wire) {
  if (wire.stochastic_rounding && wire.uplink == "fp32" && wire.downlink == "fp32") {
    reader.Contradiction({"wire.rounding"}, "wire.rounding: fp32 rounds nothing, and both ways use it; remove the key");
  }
  if ((wire.uplink_feedback() && wire.uplink == "fp32") || (wire.downlink_feedback() && wire.downlink == "fp32")) {
    reader.Contradiction({"wire.error_feedback"},
                         absl::StrFormat("wire.error_feedback: wire.%s is fp32, which loses nothing; leave it out",
                                         wire.uplink_feedback() && wire.uplink == "fp32" ? "uplink" : "downlink"));
  }
}

// `sgd` has a rate and a clip only.
void CheckInner(YamlReader& reader, InnerSection& inner) {
  if (inner.optimizer != InnerAlgorithm::kSgd) return;
  for (const std::string key : {"beta1", "beta2", "epsilon", "weight_decay"}) {
    if (reader.Has("inner." + key)) {
      reader.Contradiction({"inner." + key}, absl::StrFormat("inner.%s: optimizer sgd has none; remove the key", key));
    }
  }
  inner.beta1 = inner.beta2 = inner.epsilon = inner.weight_decay = 0;
}

// Of the inner section and the model, which a run keeps.
void CheckRest(YamlReader& reader, const RunConfig& config) {
  if (config.inner.batch_size % config.inner.accumulation != 0) {
    reader.Contradiction({"inner.accumulation", "inner.batch_size"},
                         absl::StrFormat("inner.accumulation: %d does not divide inner.batch_size, %d",
                                         config.inner.accumulation, config.inner.batch_size));
  }
  if (config.model.has_value() && config.model->width % (2 * config.model->heads) != 0) {
    reader.Contradiction({"model.width"},
                         absl::StrFormat("model.width: %d is not a multiple of 2 * model.heads, %d, as rotary "
                                         "positions need",
                                         config.model->width, 2 * config.model->heads));
  }
}

// Writes `path=value` lines, exactly: floating-point numbers in hexadecimal, durations in nanoseconds.
class CanonicalWriter {
 public:
  void Section(std::string_view key, Need, const std::function<void(CanonicalWriter&)>& visit) {
    std::string outer = prefix_;
    absl::StrAppendFormat(&prefix_, "%s.", key);
    visit(*this);
    prefix_ = std::move(outer);
  }
  template <typename T>
  void Section(std::string_view key, const std::optional<T>& section,
               const std::function<void(CanonicalWriter&)>& visit) {
    if (section.has_value()) Section(key, Need::kOptional, visit);
  }
  template <typename T>
  void Integer(std::string_view key, Need, std::type_identity_t<T>, std::type_identity_t<T>, const T& value) {
    Line(key, absl::StrFormat("%d", value));
  }
  void Number(std::string_view key, Need, const Range&, double value) { Line(key, absl::StrFormat("%a", value)); }
  void NumberOr(std::string_view key, std::string_view word, const Range&, const std::optional<double>& value) {
    Line(key, value.has_value() ? absl::StrFormat("%a", *value) : std::string(word));
  }
  void Duration(std::string_view key, absl::Duration, absl::Duration, absl::Duration value) {
    Line(key, absl::StrFormat("%dns", absl::ToInt64Nanoseconds(value)));
  }
  void DurationOr(std::string_view key, std::string_view word, absl::Duration low, absl::Duration high,
                  const std::optional<absl::Duration>& value) {
    if (value.has_value()) return Duration(key, low, high, *value);
    Line(key, std::string(word));
  }
  void Text(std::string_view key, Need, const std::function<absl::Status(std::string_view)>&,
            const std::string& value) {
    Line(key, value);
  }
  void Word(std::string_view key, absl::Span<const std::string_view>, const std::string& value) { Line(key, value); }
  template <typename T>
  void Choice(std::string_view key, std::initializer_list<std::pair<std::string_view, std::type_identity_t<T>>> words,
              const T& value) {
    for (const auto& [word, meaning] : words) {
      if (meaning == value) Line(key, std::string(word));
    }
  }
  void WordOrIntegers(std::string_view key, absl::Span<const std::string_view>, int64_t, int64_t,
                      const std::string& word, const std::vector<int64_t>& list) {
    Line(key, word.empty() ? absl::StrJoin(list, ",") : word);
  }
  void IntegerLists(std::string_view key, int, int, const std::vector<std::vector<int>>& lists) {
    Line(key, absl::StrJoin(lists, ";", [](std::string* out, const std::vector<int>& list) {
           absl::StrAppend(out, absl::StrJoin(list, ","));
         }));
  }
  const std::string& text() const { return text_; }

 private:
  void Line(std::string_view key, const std::string& value) {
    absl::StrAppendFormat(&text_, "%s%s=%s\n", prefix_, key, value);
  }

  std::string prefix_;
  std::string text_;
};

}  // namespace

void internal::CheckRounds(YamlReader& reader, const RunConfig& config) {
  const RoundsSection& rounds = config.rounds;
  if (rounds.quorum > config.run.workers) {
    reader.Contradiction({"rounds.quorum"}, absl::StrFormat("rounds.quorum: %d is more than run.workers, %d",
                                                            rounds.quorum, config.run.workers));
  }
  for (const char* key : {"rounds.grace_floor", "rounds.grace_cap"}) {
    if (rounds.grace_window && reader.Has(key)) {
      reader.Contradiction(
          {key}, absl::StrFormat("%s: rounds.grace_window is fixed; remove the key, or write `adaptive` there", key));
    }
  }
  if (rounds.grace_floor > rounds.grace_cap) {
    reader.Contradiction(
        {"rounds.grace_floor", "rounds.grace_cap"},
        absl::StrFormat("rounds.grace_floor: %s is more than rounds.grace_cap, %s",
                        absl::FormatDuration(rounds.grace_floor), absl::FormatDuration(rounds.grace_cap)));
  }
  if (rounds.lease < 3 * rounds.heartbeat_interval) {
    reader.Contradiction(
        {"rounds.lease", "rounds.heartbeat_interval"},
        absl::StrFormat("rounds.lease: %s is less than 3 times rounds.heartbeat_interval, %s",
                        absl::FormatDuration(rounds.lease), absl::FormatDuration(rounds.heartbeat_interval)));
  }
  if (config.eval.every > 0 && config.eval.held_out == 0) {
    reader.Contradiction({"eval.every"}, "eval.every: eval.held_out is 0, so there is nothing to evaluate on");
  }
}

absl::StatusOr<RunConfig> ParseRunConfig(std::string_view yaml, std::string_view source) {
  YamlReader reader(yaml, source);
  RunConfig config;
  if (reader.ok()) {
    internal::VisitRunConfig(reader, config);
    reader.Finish();
  }
  if (reader.ok()) {
    const Method& method = *FindMethod(config.method);
    FillDefaults(reader, method, config);
    CheckMethod(reader, method, config);
    CheckFragments(reader, config);
    CheckWire(reader, config.wire);
    CheckInner(reader, config.inner);
    CheckLinear(reader, method, config);
    FillOuter(reader, method, config);
    CheckRest(reader, config);
    internal::CheckRounds(reader, config);
  }
  if (!reader.ok()) return reader.status();
  return config;
}

absl::StatusOr<std::vector<int64_t>> FragmentOffsets(const RunConfig& config, int count) {
  const FragmentsSection& fragments = config.fragments;
  const auto size = static_cast<size_t>(count);
  if (fragments.offsets.empty() && fragments.offset_list.size() != size) {
    return absl::InvalidArgumentError(
        absl::StrFormat("fragments.offsets names %d fragments, the model is cut into %d; name as many",
                        fragments.offset_list.size(), count));
  }
  if (fragments.offsets.empty()) return fragments.offset_list;
  std::vector<int64_t> offsets(size, 0);
  for (int64_t f = 0; fragments.offsets == "spread" && f < count; ++f) {
    offsets[static_cast<size_t>(f)] = f * config.inner_steps / count;
  }
  return offsets;
}

std::string CanonicalSettings(const RunConfig& config) {
  RunConfig copy = config;  // The walk is the one that reading uses, which needs somewhere to write.
  CanonicalWriter writer;
  internal::VisitRunConfig(writer, copy);
  return writer.text();
}

Digest ConfigDigest(const RunConfig& config) { return DigestOf(CanonicalSettings(config)); }

}  // namespace diloco
