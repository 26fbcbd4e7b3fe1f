#include "common/config/run_config.h"

#include <functional>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"

#include "common/config/run_config_keys.h"

namespace diloco {
namespace {

// What an absent key means where that depends on another one.
void FillDefaults(const YamlReader& reader, const Method& method, RunConfig& config) {
  if (!reader.Has("overlap")) config.overlap = method.overlaps ? config.inner_steps : 0;
  if (!reader.Has("max_late")) config.max_late = method.default_max_late;
  if (!reader.Has("rounds.quorum")) config.rounds.quorum = config.run.workers;
  if (config.model.has_value() && !reader.Has("model.ffn")) config.model->ffn = 4 * config.model->width;
}

void CheckMethod(YamlReader& reader, const Method& method, const RunConfig& config) {
  if (method.overlaps) {
    const bool multiple = config.overlap > 0 && config.overlap % config.inner_steps == 0;
    if (!multiple || config.overlap / config.inner_steps > kMaxOverlapRounds) {
      reader.Contradiction({"overlap"},
                           absl::StrFormat("overlap: %d is not 1 to %d times inner_steps, %d, as method %s needs",
                                           config.overlap, kMaxOverlapRounds, config.inner_steps, config.method));
    }
  } else if (config.overlap != 0) {
    reader.Contradiction({"overlap"},
                         absl::StrFormat("overlap: method %s does not overlap; remove the key", config.method));
  }
  if (method.default_max_late == 0 && config.max_late != 0) {
    reader.Contradiction({"max_late"},
                         absl::StrFormat("max_late: method %s allows only 0; remove the key", config.method));
  }
  if (method.after != AfterBoundary::kLookahead && reader.Has("lookahead")) {
    reader.Contradiction({"lookahead"},
                         absl::StrFormat("lookahead: method %s has none; remove the section", config.method));
  }
}

void CheckOuter(YamlReader& reader, OuterSection& outer) {
  if (FindOuterOptimizer(outer.optimizer)->uses_momentum) return;
  if (reader.Has("outer.momentum")) {
    reader.Contradiction({"outer.momentum"},
                         absl::StrFormat("outer.momentum: optimizer %s has none; remove the key", outer.optimizer));
  }
  outer.momentum = 0;
}

void CheckRest(YamlReader& reader, const RunConfig& config) {
  const RoundsSection& rounds = config.rounds;
  if (rounds.quorum > config.run.workers) {
    reader.Contradiction({"rounds.quorum"}, absl::StrFormat("rounds.quorum: %d is more than run.workers, %d",
                                                            rounds.quorum, config.run.workers));
  }
  if (rounds.lease < 3 * rounds.heartbeat_interval) {
    reader.Contradiction(
        {"rounds.lease", "rounds.heartbeat_interval"},
        absl::StrFormat("rounds.lease: %s is less than 3 times rounds.heartbeat_interval, %s",
                        absl::FormatDuration(rounds.lease), absl::FormatDuration(rounds.heartbeat_interval)));
  }
  if (config.inner.batch_size % config.inner.accumulation != 0) {
    reader.Contradiction({"inner.accumulation", "inner.batch_size"},
                         absl::StrFormat("inner.accumulation: %d does not divide inner.batch_size, %d",
                                         config.inner.accumulation, config.inner.batch_size));
  }
  if (config.eval.every > 0 && config.eval.held_out == 0) {
    reader.Contradiction({"eval.every"}, "eval.every: eval.held_out is 0, so there is nothing to evaluate on");
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
  const std::string& text() const { return text_; }

 private:
  void Line(std::string_view key, const std::string& value) {
    absl::StrAppendFormat(&text_, "%s%s=%s\n", prefix_, key, value);
  }

  std::string prefix_;
  std::string text_;
};

}  // namespace

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
    CheckOuter(reader, config.outer);
    CheckRest(reader, config);
  }
  if (!reader.ok()) return reader.status();
  return config;
}

Digest ConfigDigest(const RunConfig& config) {
  RunConfig copy = config;  // The walk is the one that reading uses, which needs somewhere to write.
  CanonicalWriter writer;
  internal::VisitRunConfig(writer, copy);
  return DigestOf(writer.text());
}

}  // namespace diloco
