// Every key of the run's configuration, once: reading a file and digesting a configuration both walk this.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/limits.h"
#include "common/base/name.h"
#include "common/codec/codec.h"
#include "common/config/lease_bounds.h"
#include "common/config/run_config.h"
#include "common/config/yaml_reader.h"
#include "common/outer/method.h"
#include "common/outer/outer_optimizer.h"

namespace diloco::internal {

template <typename Row>
std::vector<std::string_view> NamesOf(absl::Span<const Row> table) {
  std::vector<std::string_view> names;
  for (const Row& row : table) names.push_back(row.name);
  return names;
}

constexpr Range Closed(double low, double high) { return {.low = low, .high = high}; }
constexpr Range LowOpen(double low, double high) { return {.low = low, .high = high, .low_open = true}; }
constexpr Range HighOpen(double low, double high) { return {.low = low, .high = high, .high_open = true}; }

inline constexpr int64_t kBillion = 1'000'000'000;
inline constexpr int64_t kMaxInnerSteps = 1'000'000;
inline constexpr int kMaxLayers = 1024;
inline constexpr auto kRequired = Need::kRequired;
inline constexpr auto kOptional = Need::kOptional;

template <typename Visitor>
void VisitRun(Visitor& v, RunSection& c) {
  v.Text(
      "id", kRequired, [](std::string_view id) { return ValidateName("run id", id); }, c.id);
  v.Integer("workers", kRequired, 1, kMaxWorkers, c.workers);
  v.Integer("rounds", kRequired, 1, kMaxRounds, c.rounds);
  v.Integer("seed", kOptional, 0, UINT64_MAX, c.seed);
}

template <typename Visitor>
void VisitLookahead(Visitor& v, LookaheadSection& c) {
  v.NumberOr("lambda", "share", Closed(0, 4), c.lambda);
  v.Choice("momentum", {{"own", false}, {"shared", true}}, c.shared_momentum);
}

template <typename Visitor>
void VisitBlend(Visitor& v, BlendSection& c) {
  v.Number("alpha", kOptional, Closed(0, 1), c.alpha);
}

template <typename Visitor>
void VisitOuter(Visitor& v, OuterSection& c) {
  v.Word("optimizer", NamesOf(OuterOptimizers()), c.optimizer);
  v.Number("rate", kOptional, LowOpen(0, 10), c.rate);
  v.Number("momentum", kOptional, HighOpen(0, 1), c.momentum);
  v.Number("beta1", kOptional, HighOpen(0, 1), c.beta1);
  v.Number("beta2", kOptional, HighOpen(0, 1), c.beta2);
  v.Number("epsilon", kOptional, LowOpen(0, 1), c.epsilon);
  v.Choice("weights", {{"uniform", Weights::kUniform}, {"tokens", Weights::kByTokens}}, c.weights);
}

template <typename Visitor>
void VisitInner(Visitor& v, InnerSection& c) {
  v.Choice("optimizer", {{"adamw", InnerAlgorithm::kAdamW}, {"sgd", InnerAlgorithm::kSgd}}, c.optimizer);
  v.Number("rate", kOptional, LowOpen(0, 1), c.rate);
  v.Number("final_ratio", kOptional, Closed(0, 1), c.final_ratio);
  v.Integer("warmup_steps", kOptional, 0, kBillion, c.warmup_steps);
  v.Number("beta1", kOptional, HighOpen(0, 1), c.beta1);
  v.Number("beta2", kOptional, HighOpen(0, 1), c.beta2);
  v.Number("epsilon", kOptional, LowOpen(0, 1), c.epsilon);
  v.Number("weight_decay", kOptional, Closed(0, 1), c.weight_decay);
  v.Number("clip", kOptional, Closed(0, 1e6), c.clip);
  v.Integer("batch_size", kOptional, 1, 65536, c.batch_size);
  v.Integer("accumulation", kOptional, 1, 4096, c.accumulation);
}

template <typename Visitor>
void VisitModel(Visitor& v, ModelSection& c) {
  v.Integer("layers", kRequired, 1, kMaxLayers, c.layers);
  v.Integer("width", kRequired, 2, 65536, c.width);
  v.Integer("heads", kRequired, 1, 1024, c.heads);
  v.Integer("ffn", kOptional, 1, 262144, c.ffn);
  v.Integer("vocabulary", kOptional, 2, 65536, c.vocabulary);
  v.Integer("sequence", kRequired, 1, 131072, c.sequence);
  v.Number("z_loss", kOptional, Closed(0, 1), c.z_loss);
  v.Choice("precision", {{"fp32", Precision::kFp32}, {"bf16", Precision::kBf16}}, c.precision);
}

template <typename Visitor>
void VisitStreaming(Visitor& v, StreamingSection& c) {
  v.Number("mixing", kOptional, Closed(0, 1), c.mixing);
}

template <typename Visitor>
void VisitFragments(Visitor& v, FragmentsSection& c) {
  v.Integer("count", kOptional, 1, kMaxFragments, c.cut.count);
  v.Integer("layers_each", kOptional, 1, kMaxLayers, c.cut.layers_each);
  v.Choice("pattern", {{"strided", true}, {"sequential", false}}, c.cut.strided);
  v.IntegerLists("layers", 0, kMaxLayers - 1, c.cut.layers);
  v.WordOrIntegers("offsets", {"together", "spread"}, 0, kMaxInnerSteps - 1, c.offsets, c.offset_list);
}

template <typename Visitor>
void VisitWire(Visitor& v, WireSection& c) {
  v.Word("uplink", NamesOf(Codecs()), c.uplink);
  v.Word("downlink", NamesOf(Codecs()), c.downlink);
  v.Choice("rounding", {{"nearest", false}, {"stochastic", true}}, c.stochastic_rounding);
  v.Choice("error_feedback",
           {{"none", FeedbackLinks::kNone},
            {"uplink", FeedbackLinks::kUplink},
            {"downlink", FeedbackLinks::kDownlink},
            {"both", FeedbackLinks::kBoth}},
           c.error_feedback);
  v.Integer("connections", kOptional, 1, 16, c.connections);
  v.Integer("upload_bytes_per_second", kOptional, 0, INT64_MAX, c.upload_bytes_per_second);
}

template <typename Visitor>
void VisitRounds(Visitor& v, RoundsSection& c) {
  v.Integer("quorum", kOptional, 1, kMaxWorkers, c.quorum);
  v.DurationOr("grace_window", "adaptive", absl::ZeroDuration(), absl::Hours(24), c.grace_window);
  v.Duration("grace_floor", absl::ZeroDuration(), absl::Hours(24), c.grace_floor);
  v.Duration("grace_cap", absl::ZeroDuration(), absl::Hours(24), c.grace_cap);
  v.DurationOr("timeout", "none", absl::Milliseconds(100), absl::Hours(24), c.timeout);
  v.Choice("late", {{"merge", LatePolicy::kMerge}, {"drop", LatePolicy::kDrop}}, c.late);
  v.Duration("heartbeat_interval", kShortestHeartbeat, kLongestHeartbeat, c.heartbeat_interval);
  v.Duration("lease", kShortestLease, kLongestLease, c.lease);
  v.Integer("snapshot_every", kOptional, 1, kMaxSnapshotEvery, c.snapshot_every);
}

template <typename Visitor>
void VisitEval(Visitor& v, EvalSection& c) {
  v.Integer("every", kOptional, 0, kBillion, c.every);
  v.Integer("sequences", kOptional, 1, 1'000'000, c.sequences);
  v.Number("held_out", kOptional, Closed(0, 0.5), c.held_out);
}

template <typename Visitor>
void VisitRunConfig(Visitor& v, RunConfig& c) {
  v.Section("run", kRequired, [&](Visitor& s) { VisitRun(s, c.run); });
  v.Word("method", NamesOf(Methods()), c.method);
  v.Integer("inner_steps", kOptional, 1, kMaxInnerSteps, c.inner_steps);
  v.Integer("overlap", kOptional, 0, kMaxOverlapRounds * kMaxInnerSteps, c.overlap);
  v.Integer("max_late", kOptional, 0, kMaxLate, c.max_late);
  v.Section("lookahead", kOptional, [&](Visitor& s) { VisitLookahead(s, c.lookahead); });
  v.Section("streaming", kOptional, [&](Visitor& s) { VisitStreaming(s, c.streaming); });
  v.Section("blend", kOptional, [&](Visitor& s) { VisitBlend(s, c.blend); });
  v.Section("outer", kOptional, [&](Visitor& s) { VisitOuter(s, c.outer); });
  v.Section("inner", kOptional, [&](Visitor& s) { VisitInner(s, c.inner); });
  v.Section("model", c.model, [&](Visitor& s) { VisitModel(s, *c.model); });
  v.Section("fragments", kOptional, [&](Visitor& s) { VisitFragments(s, c.fragments); });
  v.Section("wire", kOptional, [&](Visitor& s) { VisitWire(s, c.wire); });
  v.Section("rounds", kOptional, [&](Visitor& s) { VisitRounds(s, c.rounds); });
  v.Section("eval", kOptional, [&](Visitor& s) { VisitEval(s, c.eval); });
}

// What the sections `rounds` and `eval` ask of each other's keys and of `run`.
void CheckRounds(YamlReader& reader, const RunConfig& config);

}  // namespace diloco::internal
