#include "common/config/run_config.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/limits.h"

namespace diloco {
namespace {

constexpr std::string_view kMinimal = R"(run: {id: demo, workers: 2, rounds: 40}
)";

// Every key but inner.optimizer, none at its default, with a method that allows them all.
constexpr std::string_view kFull = R"(run:
  id: full.run-1
  workers: 5
  rounds: 1000000000
  seed: 18446744073709551615
method: eager
inner_steps: 50
overlap: 100
max_late: 3
lookahead:
  lambda: 0.75
  momentum: shared
outer:
  optimizer: nesterov
  rate: 0.7
  momentum: 0.8
  weights: tokens
inner:
  rate: 4e-4
  final_ratio: 0.1
  warmup_steps: 7
  beta1: 0.8
  beta2: 0.95
  epsilon: 1e-6
  weight_decay: 0
  clip: 0.5
  batch_size: 32
  accumulation: 4
model:
  layers: 3
  width: 48
  heads: 4
  ffn: 100
  vocabulary: 50304
  sequence: 512
  z_loss: 0
  precision: bf16
fragments:
  layers_each: 2
  pattern: sequential
  offsets: [0, 20]
wire:
  uplink: bf16
  downlink: fp32
  rounding: stochastic
  error_feedback: uplink
  connections: 4
  upload_bytes_per_second: 9223372036854775807
rounds:
  quorum: 3
  grace_window: 1m30s
  late: drop
  heartbeat_interval: 250ms
  lease: 750ms
  snapshot_every: 64
eval:
  every: 9
  sequences: 10
  held_out: 0.25
)";

RunConfig Parse(std::string_view yaml) {
  absl::StatusOr<RunConfig> config = ParseRunConfig(yaml, "run.yaml");
  EXPECT_TRUE(config.ok()) << config.status() << "\n" << yaml;
  return config.ok() ? *config : RunConfig{};
}

std::string Replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string replaced(text);
  const size_t at = replaced.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? replaced : replaced.replace(at, from.size(), to);
}

TEST(RunConfigTest, MinimalFileGetsTheDefaults) {
  const RunConfig c = Parse(kMinimal);
  EXPECT_EQ(c.run.id, "demo");
  EXPECT_EQ(c.run.workers, 2);
  EXPECT_EQ(c.run.rounds, 40);
  EXPECT_EQ(c.run.seed, 1u);
  EXPECT_EQ(c.method, "eager");
  EXPECT_EQ(c.inner_steps, 30);
  EXPECT_EQ(c.overlap, 30);
  EXPECT_EQ(c.max_late, 1);
  EXPECT_EQ(c.lookahead.lambda, 1.0);
  EXPECT_FALSE(c.lookahead.shared_momentum);
  EXPECT_EQ(c.outer.optimizer, "nesterov");
  EXPECT_EQ(c.outer.rate, 0.4);
  EXPECT_EQ(c.outer.momentum, 0.9);
  EXPECT_EQ(c.outer.weights, Weights::kUniform);
  EXPECT_EQ(c.blend.alpha, 0.5);
  EXPECT_EQ(c.inner.optimizer, InnerAlgorithm::kAdamW);
  EXPECT_EQ(c.inner.rate, 1e-3);
  EXPECT_EQ(c.inner.final_ratio, 0.05);
  EXPECT_EQ(c.inner.warmup_steps, 100);
  EXPECT_EQ(c.inner.beta1, 0.9);
  EXPECT_EQ(c.inner.beta2, 0.99);
  EXPECT_EQ(c.inner.epsilon, 1e-8);
  EXPECT_EQ(c.inner.weight_decay, 0.1);
  EXPECT_EQ(c.inner.clip, 1.0);
  EXPECT_EQ(c.inner.batch_size, 16);
  EXPECT_EQ(c.inner.accumulation, 1);
  EXPECT_FALSE(c.model.has_value());
  EXPECT_EQ(c.wire.uplink, "e3m0");
  EXPECT_EQ(c.wire.downlink, "int8");
  EXPECT_EQ(c.fragments, FragmentsSection{});
  EXPECT_FALSE(c.wire.stochastic_rounding);
  EXPECT_EQ(c.wire.error_feedback, FeedbackLinks::kNone);
  EXPECT_FALSE(c.wire.uplink_feedback());
  EXPECT_FALSE(c.wire.downlink_feedback());
  EXPECT_EQ(c.wire.connections, 1);
  EXPECT_EQ(c.wire.upload_bytes_per_second, 0);
  EXPECT_EQ(c.rounds.quorum, 2);
  EXPECT_EQ(c.rounds.grace_window, absl::Seconds(30));
  EXPECT_EQ(c.rounds.timeout, std::nullopt);
  EXPECT_EQ(c.rounds.late, LatePolicy::kMerge);
  EXPECT_EQ(c.rounds.heartbeat_interval, absl::Seconds(2));
  EXPECT_EQ(c.rounds.lease, absl::Seconds(20));
  EXPECT_EQ(c.rounds.snapshot_every, 10);
  EXPECT_EQ(c.eval.every, 0);
  EXPECT_EQ(c.eval.sequences, 64);
  EXPECT_EQ(c.eval.held_out, 0.05);
}

TEST(RunConfigTest, EveryKeyIsRead) {
  const RunConfig c = Parse(kFull);
  EXPECT_EQ(c.run.id, "full.run-1");
  EXPECT_EQ(c.run.workers, 5);
  EXPECT_EQ(c.run.rounds, 1'000'000'000);
  EXPECT_EQ(c.run.seed, UINT64_MAX);
  EXPECT_EQ(c.method, "eager");
  EXPECT_EQ(c.inner_steps, 50);
  EXPECT_EQ(c.overlap, 100);
  EXPECT_EQ(c.max_late, 3);
  EXPECT_EQ(c.OpenRounds(), 6);
  EXPECT_EQ(c.lookahead.lambda, 0.75);
  EXPECT_TRUE(c.lookahead.shared_momentum);
  EXPECT_EQ(c.outer.rate, 0.7);
  EXPECT_EQ(c.outer.momentum, 0.8);
  EXPECT_EQ(c.outer.weights, Weights::kByTokens);
  EXPECT_EQ(c.inner.rate, 4e-4);
  EXPECT_EQ(c.inner.final_ratio, 0.1);
  EXPECT_EQ(c.inner.warmup_steps, 7);
  EXPECT_EQ(c.inner.beta1, 0.8);
  EXPECT_EQ(c.inner.beta2, 0.95);
  EXPECT_EQ(c.inner.epsilon, 1e-6);
  EXPECT_EQ(c.inner.weight_decay, 0);
  EXPECT_EQ(c.inner.clip, 0.5);
  EXPECT_EQ(c.inner.batch_size, 32);
  EXPECT_EQ(c.inner.accumulation, 4);
  ASSERT_TRUE(c.model.has_value());
  EXPECT_EQ(c.model->layers, 3);
  EXPECT_EQ(c.model->width, 48);
  EXPECT_EQ(c.model->heads, 4);
  EXPECT_EQ(c.model->ffn, 100);
  EXPECT_EQ(c.model->vocabulary, 50304);
  EXPECT_EQ(c.model->sequence, 512);
  EXPECT_EQ(c.model->z_loss, 0);
  EXPECT_EQ(c.model->precision, Precision::kBf16);
  EXPECT_EQ(c.wire.uplink, "bf16");
  EXPECT_EQ(c.wire.downlink, "fp32");
  EXPECT_EQ(c.fragments.cut.layers_each, 2);
  EXPECT_FALSE(c.fragments.cut.strided);
  EXPECT_EQ(c.fragments.offsets, "");
  EXPECT_EQ(c.fragments.offset_list, (std::vector<int64_t>{0, 20}));
  EXPECT_TRUE(c.wire.stochastic_rounding);
  EXPECT_EQ(c.wire.error_feedback, FeedbackLinks::kUplink);
  EXPECT_TRUE(c.wire.uplink_feedback());
  EXPECT_FALSE(c.wire.downlink_feedback());
  EXPECT_EQ(c.wire.connections, 4);
  EXPECT_EQ(c.wire.upload_bytes_per_second, INT64_MAX);
  EXPECT_EQ(c.rounds.quorum, 3);
  EXPECT_EQ(c.rounds.grace_window, absl::Seconds(90));
  EXPECT_EQ(c.rounds.late, LatePolicy::kDrop);
  EXPECT_EQ(c.rounds.heartbeat_interval, absl::Milliseconds(250));
  EXPECT_EQ(c.rounds.lease, absl::Milliseconds(750));
  EXPECT_EQ(c.rounds.snapshot_every, 64);
  EXPECT_EQ(c.eval.every, 9);
  EXPECT_EQ(c.eval.sequences, 10);
  EXPECT_EQ(c.eval.held_out, 0.25);
}

TEST(RunConfigTest, AnAdaptiveGraceWindowAndATimeoutAreRead) {
  const RunConfig bare = Parse(Replaced(kFull, "grace_window: 1m30s", "grace_window: adaptive\n  timeout: none"));
  EXPECT_EQ(bare.rounds.grace_window, std::nullopt);
  EXPECT_EQ(bare.rounds.grace_floor, absl::Seconds(1));
  EXPECT_EQ(bare.rounds.grace_cap, absl::Minutes(2));
  EXPECT_EQ(bare.rounds.timeout, std::nullopt);
  const RunConfig full = Parse(Replaced(
      kFull, "grace_window: 1m30s", "grace_window: adaptive\n  grace_floor: 0s\n  grace_cap: 24h\n  timeout: 100ms"));
  EXPECT_EQ(full.rounds.grace_floor, absl::ZeroDuration());
  EXPECT_EQ(full.rounds.grace_cap, absl::Hours(24));
  EXPECT_EQ(full.rounds.timeout, absl::Milliseconds(100));
}

TEST(RunConfigTest, ErrorFeedbackIsOnTheLinksItNames) {
  for (const auto& [word, uplink, downlink] : {std::tuple("none", false, false), std::tuple("uplink", true, false),
                                               std::tuple("downlink", false, true), std::tuple("both", true, true)}) {
    const RunConfig c = Parse(std::string(kMinimal) + "wire: {error_feedback: " + word + "}\n");
    EXPECT_EQ(c.wire.uplink_feedback(), uplink) << word;
    EXPECT_EQ(c.wire.downlink_feedback(), downlink) << word;
  }
}

TEST(RunConfigTest, ModelDefaultsFollowTheWidth) {
  const RunConfig c = Parse(std::string(kMinimal) + "model: {layers: 2, width: 24, heads: 3, sequence: 64}\n");
  ASSERT_TRUE(c.model.has_value());
  EXPECT_EQ(c.model->ffn, 96);
  EXPECT_EQ(c.model->vocabulary, 256);
  EXPECT_EQ(c.model->z_loss, 1e-4);
  EXPECT_EQ(c.model->precision, Precision::kFp32);
}

struct MethodDefaults {
  std::string_view method;
  int64_t overlap;
  int max_late;
};

TEST(RunConfigTest, DefaultsFollowTheMethod) {
  for (const auto& [method, overlap, max_late] :
       {MethodDefaults{"eager", 12, 1}, {"delayed", 12, 0}, {"diloco", 0, 0}, {"streaming", 1, 0}, {"blend", 12, 0}}) {
    const RunConfig c = Parse(std::string(kMinimal) + "method: " + std::string(method) + "\ninner_steps: 12\n");
    EXPECT_EQ(c.overlap, overlap) << method;
    EXPECT_EQ(c.max_late, max_late) << method;
    EXPECT_EQ(c.FixedSchedule(), max_late == 0) << method;
  }
}

TEST(RunConfigTest, StreamingCutsByLayersAndSpreads) {
  const RunConfig c = Parse(std::string(kMinimal) + "method: streaming\n");
  EXPECT_EQ(c.streaming.mixing, 0.5);
  EXPECT_EQ(c.fragments.cut.layers_each, 3);
  EXPECT_TRUE(c.fragments.cut.strided);
  EXPECT_EQ(c.fragments.offsets, "spread");
  const RunConfig whole = Parse(std::string(kMinimal) +
                                "method: streaming\noverlap: 0\nstreaming: {mixing: 0}\n"
                                "fragments: {count: 1, offsets: together}\n");
  EXPECT_EQ(whole.overlap, 0);
  EXPECT_EQ(whole.streaming.mixing, 0);
  EXPECT_EQ(whole.fragments.cut.layers_each, 0);
  EXPECT_EQ(whole.fragments.offsets, "together");
}

TEST(RunConfigTest, FragmentsMayBeWrittenOut) {
  const RunConfig c = Parse(std::string(kMinimal) + "fragments: {layers: [[0, 2], [1]]}\n");
  EXPECT_EQ(c.fragments.cut.layers, (std::vector<std::vector<int>>{{0, 2}, {1}}));
}

TEST(FragmentOffsetsTest, FollowTheSetting) {
  RunConfig config;
  config.inner_steps = 100;
  EXPECT_EQ(*FragmentOffsets(config, 3), (std::vector<int64_t>{0, 0, 0}));
  config.fragments.offsets = "spread";
  EXPECT_EQ(*FragmentOffsets(config, 3), (std::vector<int64_t>{0, 33, 66}));
  config.fragments.offsets = "";
  config.fragments.offset_list = {7, 0};
  EXPECT_EQ(*FragmentOffsets(config, 2), (std::vector<int64_t>{7, 0}));
  EXPECT_EQ(FragmentOffsets(config, 3).status(),
            absl::InvalidArgumentError("fragments.offsets names 2 fragments, the model is cut into 3; name as many"));
}

TEST(RunConfigTest, SgdHasNoMomentum) {
  const RunConfig c = Parse(std::string(kMinimal) + "outer: {optimizer: sgd, rate: 1}\n");
  EXPECT_EQ(c.outer.optimizer, "sgd");
  EXPECT_EQ(c.outer.rate, 1);
  EXPECT_EQ(c.outer.momentum, 0);
}

TEST(RunConfigTest, InnerSgdHasARateAndAClip) {
  const RunConfig c = Parse(std::string(kMinimal) + "inner: {optimizer: sgd, rate: 0.5, clip: 2}\n");
  EXPECT_EQ(c.inner.optimizer, InnerAlgorithm::kSgd);
  EXPECT_EQ(c.inner.rate, 0.5);
  EXPECT_EQ(c.inner.clip, 2);
  EXPECT_EQ(c.inner.beta1, 0);
  EXPECT_EQ(c.inner.beta2, 0);
  EXPECT_EQ(c.inner.epsilon, 0);
  EXPECT_EQ(c.inner.weight_decay, 0);
}

struct OuterDefaults {
  std::string_view optimizer;
  double rate, momentum, beta1, beta2, epsilon;
};

// 0: not a key of the optimizer.
TEST(RunConfigTest, OuterDefaultsFollowTheOptimizer) {
  for (const auto& [optimizer, rate, momentum, beta1, beta2, epsilon] : {OuterDefaults{"nesterov", 0.4, 0.9, 0, 0, 0},
                                                                         {"sgd", 0.4, 0, 0, 0, 0},
                                                                         {"adam", 0.01, 0, 0.9, 0.99, 1e-3},
                                                                         {"yogi", 0.01, 0, 0.9, 0.99, 1e-3},
                                                                         {"adagrad", 0.01, 0, 0.9, 0, 1e-3},
                                                                         {"adamw", 1e-3, 0, 0.9, 0.99, 1e-8}}) {
    const RunConfig c =
        Parse(std::string(kMinimal) + "method: diloco\nouter: {optimizer: " + std::string(optimizer) + "}\n");
    EXPECT_EQ(c.outer.rate, rate) << optimizer;
    EXPECT_EQ(c.outer.momentum, momentum) << optimizer;
    EXPECT_EQ(c.outer.beta1, beta1) << optimizer;
    EXPECT_EQ(c.outer.beta2, beta2) << optimizer;
    EXPECT_EQ(c.outer.epsilon, epsilon) << optimizer;
  }
}

TEST(RunConfigTest, AdaptiveOptimizersReadTheirKeys) {
  const RunConfig c = Parse(
      std::string(kMinimal) +
      "lookahead: {momentum: shared}\nouter: {optimizer: yogi, rate: 0.1, beta1: 0, beta2: 0.5, epsilon: 0.25}\n");
  EXPECT_EQ(c.outer.rate, 0.1);
  EXPECT_EQ(c.outer.beta1, 0);
  EXPECT_EQ(c.outer.beta2, 0.5);
  EXPECT_EQ(c.outer.epsilon, 0.25);
}

TEST(RunConfigTest, DataParallelTakesItsOptimizerFromTheInnerSection) {
  const std::string yaml = std::string(kMinimal) + "method: data-parallel\n";
  EXPECT_EQ(Parse(yaml).wire.uplink, "bf16");
  EXPECT_EQ(Parse(yaml).wire.downlink, "bf16");
  EXPECT_EQ(Parse(yaml + "wire: {uplink: int8}\n").wire.uplink, "int8");
  const RunConfig c = Parse(yaml + "inner: {rate: 4e-4, beta1: 0.8, beta2: 0.95, epsilon: 1e-6}\n");
  EXPECT_EQ(c.inner_steps, 1);
  EXPECT_EQ(c.overlap, 0);
  EXPECT_EQ(c.max_late, 0);
  EXPECT_EQ(c.fragments.cut.count, 1);
  EXPECT_EQ(c.outer.optimizer, "adamw");
  EXPECT_EQ(c.outer.rate, 4e-4);
  EXPECT_EQ(c.outer.momentum, 0);
  EXPECT_EQ(c.outer.beta1, 0.8);
  EXPECT_EQ(c.outer.beta2, 0.95);
  EXPECT_EQ(c.outer.epsilon, 1e-6);
  const RunConfig n = Parse(yaml + "outer: {optimizer: nesterov, momentum: 0.5}\ninner_steps: 1\n");
  EXPECT_EQ(n.outer.optimizer, "nesterov");
  EXPECT_EQ(n.outer.rate, 1e-3);
  EXPECT_EQ(n.outer.momentum, 0.5);
  EXPECT_EQ(n.outer.beta1, 0);
}

TEST(RunConfigTest, BlendHasAnAlpha) {
  for (const double alpha : {0.0, 0.25, 1.0}) {
    const std::string section = alpha == 0 ? "{alpha: 0}" : alpha == 1 ? "{alpha: 1}" : "{alpha: 0.25}";
    EXPECT_EQ(Parse(std::string(kMinimal) + "method: blend\nblend: " + section + "\n").blend.alpha, alpha);
  }
}

TEST(RunConfigTest, KeysThatRestateTheDefaultAreFine) {
  const RunConfig c = Parse(std::string(kMinimal) + "method: diloco\noverlap: 0\nmax_late: 0\n");
  EXPECT_EQ(c.overlap, 0);
  EXPECT_EQ(c.max_late, 0);
}

TEST(RunConfigTest, LambdaIsShareOrANumber) {
  EXPECT_FALSE(Parse(std::string(kMinimal) + "lookahead: {lambda: share}\n").lookahead.lambda.has_value());
  EXPECT_EQ(Parse(std::string(kMinimal) + "lookahead: {lambda: 1}\n").lookahead.lambda, 1.0);
  EXPECT_EQ(Parse(std::string(kMinimal) + "lookahead: {lambda: 0}\n").lookahead.lambda, 0.0);
}

TEST(RunConfigTest, TakesWhatYamlAllows) {
  EXPECT_EQ(Parse("\xEF\xBB\xBFrun: {id: demo, workers: 2, rounds: 40}\n").run.rounds, 40) << "byte order mark";
  EXPECT_EQ(Parse("run:\r\n  id: demo\r\n  workers: 2\r\n  rounds: 40\r\n").run.workers, 2) << "CRLF";
  EXPECT_EQ(Parse("---\nrun: {id: '7', workers: 2, rounds: 40} # caf\xC3\xA9\n...\n").run.id, "7");
  EXPECT_EQ(Parse("run: {id: 7, workers: &n 2, rounds: *n}\n").run.rounds, 2) << "anchors";
  EXPECT_EQ(Parse(std::string(kMinimal) + "eval:\nfragments: {}\n").fragments.cut.count, 8) << "empty sections";
  EXPECT_EQ(Parse(std::string(kMinimal) + "inner: {rate: .5, clip: 5., beta1: 0}\n").inner.rate, 0.5);
}

TEST(RunConfigTest, TakesAFileOfTheLargestSize) {
  std::string yaml(kMinimal);
  yaml += "#" + std::string(kMaxConfigBytes - yaml.size() - 1, 'x');
  EXPECT_EQ(Parse(yaml).run.workers, 2);
}

TEST(ConfigDigestTest, MeaningAloneCounts) {
  const Digest digest = ConfigDigest(Parse(kMinimal));
  EXPECT_EQ(ConfigDigest(Parse("# another order, and defaults written out\n"
                               "overlap: 30\nmethod: eager\neval: {every: 0}\n"
                               "run: {rounds: 40, id: \"demo\", workers: 2}\nrounds: {lease: 20000ms, quorum: 2}\n")),
            digest);
}

TEST(ConfigDigestTest, EveryKeyCounts) {
  const std::vector<std::pair<std::string_view, std::string_view>> changes = {
      {"id: full.run-1", "id: full.run-2"},
      {"workers: 5", "workers: 6"},
      {"rounds: 1000000000", "rounds: 999999999"},
      {"seed: 18446744073709551615", "seed: 0"},
      {"inner_steps: 50", "inner_steps: 25"},
      {"overlap: 100", "overlap: 50"},
      {"max_late: 3", "max_late: 2"},
      {"lambda: 0.75", "lambda: share"},
      {"momentum: shared", "momentum: own"},
      {"rate: 0.7", "rate: 0.70000000001"},
      {"momentum: 0.8", "momentum: 0.9"},
      {"weights: tokens", "weights: uniform"},
      {"rate: 4e-4", "rate: 5e-4"},
      {"final_ratio: 0.1", "final_ratio: 0.2"},
      {"warmup_steps: 7", "warmup_steps: 8"},
      {"beta1: 0.8", "beta1: 0.9"},
      {"beta2: 0.95", "beta2: 0.96"},
      {"epsilon: 1e-6", "epsilon: 1e-7"},
      {"weight_decay: 0", "weight_decay: 0.1"},
      {"clip: 0.5", "clip: 0"},
      {"batch_size: 32", "batch_size: 64"},
      {"accumulation: 4", "accumulation: 8"},
      {"layers: 3", "layers: 4"},
      {"width: 48", "width: 96"},
      {"heads: 4", "heads: 3"},
      {"ffn: 100", "ffn: 101"},
      {"vocabulary: 50304", "vocabulary: 256"},
      {"sequence: 512", "sequence: 513"},
      {"z_loss: 0", "z_loss: 1e-4"},
      {"precision: bf16", "precision: fp32"},
      {"beta1: 0.8\n  beta2: 0.95\n  epsilon: 1e-6\n  weight_decay: 0", "optimizer: sgd"},
      {"uplink: bf16", "uplink: int4"},
      {"downlink: fp32", "downlink: bf16"},
      {"layers_each: 2", "layers_each: 3"},
      {"layers_each: 2\n  pattern: sequential", "count: 8"},
      {"layers_each: 2\n  pattern: sequential", "layers: [[0, 1], [2]]"},
      {"layers_each: 2\n  pattern: sequential", "layers: [[0], [1, 2]]"},
      {"pattern: sequential", "pattern: strided"},
      {"offsets: [0, 20]", "offsets: [0, 21]"},
      {"offsets: [0, 20]", "offsets: spread"},
      {"connections: 4", "connections: 5"},
      {"upload_bytes_per_second: 9223372036854775807", "upload_bytes_per_second: 0"},
      {"quorum: 3", "quorum: 4"},
      {"grace_window: 1m30s", "grace_window: 1m31s"},
      {"grace_window: 1m30s", "grace_window: adaptive"},
      {"grace_window: 1m30s", "grace_window: adaptive\n  grace_floor: 2s"},
      {"grace_window: 1m30s", "grace_window: adaptive\n  grace_cap: 3m"},
      {"grace_window: 1m30s", "grace_window: 1m30s\n  timeout: 5m"},
      {"late: drop", "late: merge"},
      {"heartbeat_interval: 250ms", "heartbeat_interval: 249ms"},
      {"lease: 750ms", "lease: 751ms"},
      {"snapshot_every: 64", "snapshot_every: 63"},
      {"every: 9", "every: 8"},
      {"sequences: 10", "sequences: 11"},
      {"held_out: 0.25", "held_out: 0.3"},
      {"method: eager", "method: delayed"}};
  std::set<Digest> digests = {ConfigDigest(Parse(kFull))};
  for (const auto& [from, to] : changes) {
    std::string yaml = Replaced(kFull, from, to);
    if (from == "method: eager") {  // What only `eager` allows goes too; the digest still differs from all others.
      yaml = Replaced(yaml, "max_late: 3\n", "");
      yaml = Replaced(yaml, "lookahead:\n  lambda: 0.75\n  momentum: shared\n", "");
    }
    EXPECT_TRUE(digests.insert(ConfigDigest(Parse(yaml))).second) << to;
  }
}

TEST(ConfigDigestTest, KeysOfOtherMethodsAndOptimizersCount) {
  std::set<Digest> digests;
  int files = 0;
  for (const std::string_view lines :
       {"method: blend", "method: blend\nblend: {alpha: 0.25}", "method: diloco\nouter: {optimizer: adam}",
        "method: diloco\nouter: {optimizer: adam, beta1: 0.8}", "method: diloco\nouter: {optimizer: adam, beta2: 0.8}",
        "method: diloco\nouter: {optimizer: adam, epsilon: 0.8}"}) {
    digests.insert(ConfigDigest(Parse(std::string(kMinimal) + std::string(lines) + "\n")));
    EXPECT_EQ(digests.size(), static_cast<size_t>(++files)) << lines;
  }
}

TEST(ConfigDigestTest, AModelThatIsThereCounts) {
  EXPECT_NE(ConfigDigest(Parse(kMinimal)),
            ConfigDigest(Parse(std::string(kMinimal) + "model: {layers: 2, width: 24, heads: 3, sequence: 64}\n")));
}

}  // namespace
}  // namespace diloco
