// What bad files get: the whole sentence, with its line and column, counted by hand.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/base/limits.h"
#include "common/config/run_config.h"

namespace diloco {
namespace {

std::string ErrorOf(std::string_view yaml) {
  const absl::StatusOr<RunConfig> config = ParseRunConfig(yaml, "run.yaml");
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << yaml;
  return std::string(config.status().message());
}

struct Case {
  std::string_view yaml;
  std::string_view error;
};

// Of whole files.
TEST(RunConfigErrorTest, NamesWhatIsWrongWithTheFile) {
  using namespace std::string_view_literals;
  const std::vector<Case> cases = {
      {"", "run.yaml:1:1: run is missing; add it"},
      {"# nothing yet\n", "run.yaml:1:1: run is missing; add it"},
      {"42\n", "run.yaml:1:1: not a map; write `key: value` lines"},
      {"\n- run\n", "run.yaml:2:1: not a map; write `key: value` lines"},
      {"run: {id: a, workers: 1, rounds: 1000000001}\n",
       "run.yaml:1:34: run.rounds: \"1000000001\" is out of range; use [1, 1000000000]"},
      {"run: {id: a, workers: 1, rounds: 1}\n---\nmethod: diloco\n", "run.yaml:2:1: a second YAML document; use one"},
      {"run: {id: a, workers: 1, rounds: 1}\n...\nmethod: diloco\n",
       "run.yaml:3:1: not valid YAML: nothing may follow here"},
      {", run: 1\n", "run.yaml:1:1: not valid YAML: nothing may follow here"},
      {"] \n", "run.yaml:1:1: not valid YAML: illegal flow end"},
      {"run: [1\n", "run.yaml:2:1: not valid YAML: end of sequence flow not found"},
      {"run:\n\tid: a\n", "run.yaml:2:1: a tab in the indentation; use spaces"},
      {"run:\n  id: a\n \tworkers: 2\n", "run.yaml:3:2: a tab in the indentation; use spaces"},
      {"run:\n  id: a\n  workers: 2: 3\n", "run.yaml:3:13: not valid YAML: illegal map value"},
      {"run: *nowhere\n", "run.yaml:1:6: not valid YAML: the referenced anchor is not defined"},
      {"run:\n  id: \xC0\xA7\n", "run.yaml:2:7: byte 0xc0; use UTF-8 without control characters"},
      {"run:\0 1\n"sv, "run.yaml:1:5: byte 0x00; use UTF-8 without control characters"},
      {"run: {id: \"a\x1B[2J\"}\n", "run.yaml:1:13: byte 0x1b; use UTF-8 without control characters"},
      {"r\0u\0n\0:\0"sv, "run.yaml:1:2: byte 0x00; use UTF-8 without control characters"},
      {"? [run]\n: 1\n", "run.yaml:1:3: a key that is not a word"},
      {"run: 3\n", "run.yaml:1:6: run: not a map of keys"},
      {"run:\n", "run.yaml:1:1: run.id is missing; add it"},
      {"method: diloco\nrun:\n  id: a\n  rounds: 1\n", "run.yaml:2:1: run.workers is missing; add it"},
  };
  for (const Case& c : cases) EXPECT_EQ(ErrorOf(c.yaml), c.error);
}

TEST(RunConfigErrorTest, DeepNestingIsAnError) {
  EXPECT_EQ(ErrorOf("run: " + std::string(100'000, '[')).substr(0, 11), "run.yaml:1:");
  EXPECT_EQ(ErrorOf("run: &x\n  id: *x\n"), "run.yaml:1:6: run.id: not a single value");
}

TEST(RunConfigErrorTest, LargeFilesAreRefusedUnread) {
  EXPECT_EQ(ErrorOf(std::string(kMaxConfigBytes + 1, '[')), "run.yaml:1:1: 1048577 bytes; use at most 1048576");
}

// Of lines after this one, so they start on line 2.
std::string ErrorAfterRun(std::string_view lines) {
  return ErrorOf("run: {id: demo, workers: 4, rounds: 9}\n" + std::string(lines) + "\n");
}

TEST(RunConfigErrorTest, NamesUnknownAndRepeatedKeys) {
  const std::vector<Case> cases = {
      {"worker: 3",
       "run.yaml:2:1: unknown key \"worker\"; use one of run, method, inner_steps, overlap, max_late, lookahead, "
       "streaming, blend, outer, inner, model, fragments, wire, rounds, eval"},
      {"methd: diloco", "run.yaml:2:1: unknown key \"methd\"; did you mean `method`?"},
      {"Method: diloco", "run.yaml:2:1: unknown key \"Method\"; did you mean `method`?"},
      {"inner:\n  batchsize: 3", "run.yaml:3:3: unknown key inner.\"batchsize\"; did you mean `batch_size`?"},
      {"eval: {\"a\\nb\": 3}", "run.yaml:2:8: unknown key eval.\"a\\nb\"; use one of every, sequences, held_out"},
      {"wire: {? : 1}", "run.yaml:2:10: a key that is not a word"},
      {"method: diloco\nmethod: eager", "run.yaml:3:1: key method repeats line 2; remove one"},
      {"lookahead:\n  lambda: 1\n  momentum: own\n  lambda: 2",
       "run.yaml:5:3: key lookahead.lambda repeats line 3; remove one"},
      {"outer: {rate: 1, rate: 1}", "run.yaml:2:18: key outer.rate repeats line 2; remove one"},
      {"run: {id: b}", "run.yaml:2:1: key run repeats line 1; remove one"},
      {"inner: &i {rate: 0.1}\nouter:\n  <<: *i", "run.yaml:4:3: merge key `<<`; write the keys out"},
      {"<<: {method: diloco}", "run.yaml:2:1: merge key `<<`; write the keys out"},
  };
  for (const Case& c : cases) EXPECT_EQ(ErrorAfterRun(c.yaml), c.error);
}

TEST(RunConfigErrorTest, NamesWrongValues) {
  const std::vector<Case> cases = {
      // Counts.
      {"rounds: {quorum: -1}", "run.yaml:2:18: rounds.quorum: \"-1\" is out of range; use [1, 256]"},
      {"inner_steps: 0", "run.yaml:2:14: inner_steps: \"0\" is out of range; use [1, 1000000]"},
      {"inner_steps: 1000001", "run.yaml:2:14: inner_steps: \"1000001\" is out of range; use [1, 1000000]"},
      {"max_late: 17", "run.yaml:2:11: max_late: \"17\" is out of range; use [0, 16]"},
      {"rounds: {snapshot_every: 65}", "run.yaml:2:26: rounds.snapshot_every: \"65\" is out of range; use [1, 64]"},
      {"wire: {connections: 17}", "run.yaml:2:21: wire.connections: \"17\" is out of range; use [1, 16]"},
      {"model: {layers: 1025}", "run.yaml:2:17: model.layers: \"1025\" is out of range; use [1, 1024]"},
      {"max_late: 4294967297", "run.yaml:2:11: max_late: \"4294967297\" is out of range; use [0, 16]"},
      {"max_late: 99999999999999999999999",
       "run.yaml:2:11: max_late: \"99999999999999999999999\" is out of range; use [0, 16]"},
      {"inner_steps:  12abc", "run.yaml:2:15: inner_steps: \"12abc\" is not a whole number; use [1, 1000000]"},
      {"inner_steps: 0.5", "run.yaml:2:14: inner_steps: \"0.5\" is not a whole number; use [1, 1000000]"},
      {"inner_steps: 3e1", "run.yaml:2:14: inner_steps: \"3e1\" is not a whole number; use [1, 1000000]"},
      {"inner_steps: 0x10", "run.yaml:2:14: inner_steps: \"0x10\" is not a whole number; use [1, 1000000]"},
      {"inner_steps: 010", "run.yaml:2:14: inner_steps: \"010\" is not a whole number; use [1, 1000000]"},
      {"inner_steps: 1_000", "run.yaml:2:14: inner_steps: \"1_000\" is not a whole number; use [1, 1000000]"},
      {"inner_steps: +5", "run.yaml:2:14: inner_steps: \"+5\" is not a whole number; use [1, 1000000]"},
      {"inner_steps: '30'",
       "run.yaml:2:14: inner_steps: \"30\" is quoted or tagged, not a plain number; use [1, 1000000]"},
      {"inner_steps: !!int 30",
       "run.yaml:2:14: inner_steps: \"30\" is quoted or tagged, not a plain number; use [1, 1000000]"},
      {"inner_steps:", "run.yaml:2:1: inner_steps: no value; write one or remove the key"},
      {"inner_steps: ~", "run.yaml:2:1: inner_steps: no value; write one or remove the key"},
      {"inner_steps: [30]", "run.yaml:2:14: inner_steps: not a single value"},
      {"inner_steps: {a: 30}", "run.yaml:2:14: inner_steps: not a single value"},
      {"fragments: {count: 1025}", "run.yaml:2:20: fragments.count: \"1025\" is out of range; use [1, 1024]"},
      {"fragments: {offsets: [0, x]}",
       "run.yaml:2:26: fragments.offsets: \"x\" is not a whole number; use [0, 999999]"},
      {"fragments: {offsets: [[0]]}", "run.yaml:2:23: fragments.offsets: not a whole number in a list of them"},
      {"fragments: {offsets: apart}",
       "run.yaml:2:22: fragments.offsets: \"apart\" is unknown; use one of together, spread"},
      {"fragments: {layers: [0, 1]}", "run.yaml:2:21: fragments.layers: not a list of lists such as [[0, 2], [1, 3]]"},
      {"fragments: {layers: []}", "run.yaml:2:21: fragments.layers: not a list of lists such as [[0, 2], [1, 3]]"},
      {"fragments: {layers: {a: 0}}", "run.yaml:2:21: fragments.layers: not a list of lists such as [[0, 2], [1, 3]]"},
      {"fragments: {layers: [[], [0]]}", "run.yaml:2:22: fragments.layers: an empty list"},
      {"fragments: {offsets: []}", "run.yaml:2:22: fragments.offsets: an empty list"},
      {"fragments: {offsets: {a: 0}}", "run.yaml:2:22: fragments.offsets: not a single value"},
      {"fragments: {layers: [[0], [1024]]}",
       "run.yaml:2:28: fragments.layers: \"1024\" is out of range; use [0, 1023]"},
      {"method: streaming\nstreaming: {mixing: 1.5}",
       "run.yaml:3:21: streaming.mixing: \"1.5\" is out of range; use [0, 1]"},
      {"wire: {upload_bytes_per_second: 9223372036854775808}",
       "run.yaml:2:33: wire.upload_bytes_per_second: \"9223372036854775808\" is out of range; use [0, "
       "9223372036854775807]"},
      // Numbers.
      {"inner: {rate: .nan}", "run.yaml:2:15: inner.rate: \".nan\" is not a finite number; use (0, 1]"},
      {"inner: {rate: nan}", "run.yaml:2:15: inner.rate: \"nan\" is not a finite number; use (0, 1]"},
      {"inner: {rate: .inf}", "run.yaml:2:15: inner.rate: \".inf\" is not a finite number; use (0, 1]"},
      {"inner: {rate: inf}", "run.yaml:2:15: inner.rate: \"inf\" is not a finite number; use (0, 1]"},
      {"inner: {rate: 1e999}", "run.yaml:2:15: inner.rate: \"1e999\" is out of range; use (0, 1]"},
      {"inner: {rate: 1e-999}", "run.yaml:2:15: inner.rate: \"1e-999\" is out of range; use (0, 1]"},
      {"inner: {rate: 0}", "run.yaml:2:15: inner.rate: \"0\" is out of range; use (0, 1]"},
      {"inner: {rate: -0.1}", "run.yaml:2:15: inner.rate: \"-0.1\" is out of range; use (0, 1]"},
      {"inner: {rate: 1e-3x}", "run.yaml:2:15: inner.rate: \"1e-3x\" is not a finite number; use (0, 1]"},
      {"inner: {rate: '1e-3'}",
       "run.yaml:2:15: inner.rate: \"1e-3\" is quoted or tagged, not a plain number; use (0, 1]"},
      {"inner: {beta2: 1}", "run.yaml:2:16: inner.beta2: \"1\" is out of range; use [0, 1)"},
      {"outer: {rate: 10.1}", "run.yaml:2:15: outer.rate: \"10.1\" is out of range; use (0, 10]"},
      {"outer: {epsilon: 0}", "run.yaml:2:18: outer.epsilon: \"0\" is out of range; use (0, 1]"},
      {"outer: {beta1: 1}", "run.yaml:2:16: outer.beta1: \"1\" is out of range; use [0, 1)"},
      {"outer: {beta2: -1}", "run.yaml:2:16: outer.beta2: \"-1\" is out of range; use [0, 1)"},
      {"method: blend\nblend: {alpha: 1.5}", "run.yaml:3:16: blend.alpha: \"1.5\" is out of range; use [0, 1]"},
      {"method: blend\nblend: {alpha: -0.5}", "run.yaml:3:16: blend.alpha: \"-0.5\" is out of range; use [0, 1]"},
      {"lookahead: {lambda: half}", "run.yaml:2:21: lookahead.lambda: \"half\"; use `share` or a number in [0, 4]"},
      {"lookahead: {lambda: 4.5}", "run.yaml:2:21: lookahead.lambda: \"4.5\" is out of range; use [0, 4]"},
      {"lookahead: {lambda: ''}",
       "run.yaml:2:21: lookahead.lambda: \"\" is quoted or tagged, not a plain number; use [0, 4]"},
      // Durations.
      {"rounds: {grace_window: 30}",
       "run.yaml:2:24: rounds.grace_window: \"30\" is not a duration such as 500ms or 30s; use [0, 24h] or `adaptive`"},
      {"rounds: {grace_window: 25h}",
       "run.yaml:2:24: rounds.grace_window: \"25h\" is out of range; use [0, 24h] or `adaptive`"},
      {"rounds: {grace_window: -1s}",
       "run.yaml:2:24: rounds.grace_window: \"-1s\" is out of range; use [0, 24h] or `adaptive`"},
      {"rounds: {grace_window: inf}",
       "run.yaml:2:24: rounds.grace_window: \"inf\" is out of range; use [0, 24h] or `adaptive`"},
      {"rounds: {grace_window: Adaptive}",
       "run.yaml:2:24: rounds.grace_window: \"Adaptive\" is not a duration such as 500ms or 30s; use [0, 24h] or "
       "`adaptive`"},
      {"rounds: {grace_window: adaptive, grace_floor: -1s}",
       "run.yaml:2:47: rounds.grace_floor: \"-1s\" is out of range; use [0, 24h]"},
      {"rounds: {grace_window: adaptive, grace_cap: 25h}",
       "run.yaml:2:45: rounds.grace_cap: \"25h\" is out of range; use [0, 24h]"},
      {"rounds: {timeout: 99ms}",
       "run.yaml:2:19: rounds.timeout: \"99ms\" is out of range; use [100ms, 24h] or `none`"},
      {"rounds: {heartbeat_interval: 1ms}",
       "run.yaml:2:30: rounds.heartbeat_interval: \"1ms\" is out of range; use [10ms, 1h]"},
      // Words.
      {"method: gossip",
       "run.yaml:2:9: method: \"gossip\" is unknown; use one of eager, delayed, diloco, streaming, blend, "
       "data-parallel"},
      {"outer: {optimizer: Adam}",
       "run.yaml:2:20: outer.optimizer: \"Adam\" is unknown; use one of nesterov, sgd, adam, yogi, adagrad, adamw"},
      {"outer: {weights: words}", "run.yaml:2:18: outer.weights: \"words\" is unknown; use one of uniform, tokens"},
      {"wire: {uplink: fp64}",
       "run.yaml:2:16: wire.uplink: \"fp64\" is unknown; use one of fp32, bf16, fp8, int8, int4, e3m0"},
      {"wire: {downlink: ''}",
       "run.yaml:2:18: wire.downlink: \"\" is unknown; use one of fp32, bf16, fp8, int8, int4, e3m0"},
      {"wire: {rounding: up}", "run.yaml:2:18: wire.rounding: \"up\" is unknown; use one of nearest, stochastic"},
      {"inner: {optimizer: adam}", "run.yaml:2:20: inner.optimizer: \"adam\" is unknown; use one of adamw, sgd"},
      {"model: {layers: 1, width: 2, heads: 1, sequence: 1, precision: fp16}",
       "run.yaml:2:64: model.precision: \"fp16\" is unknown; use one of fp32, bf16"},
      {"wire: {error_feedback: yes}",
       "run.yaml:2:24: wire.error_feedback: \"yes\" is unknown; use one of none, uplink, downlink, both"},
      {"rounds: {late: keep}", "run.yaml:2:16: rounds.late: \"keep\" is unknown; use one of merge, drop"},
      {"lookahead: {momentum: true}", "run.yaml:2:23: lookahead.momentum: \"true\" is unknown; use one of own, shared"},
  };
  for (const Case& c : cases) EXPECT_EQ(ErrorAfterRun(c.yaml), c.error);
}

TEST(RunConfigErrorTest, NamesTooManyWorkers) {
  EXPECT_EQ(ErrorOf("run: {id: a, workers: 257, rounds: 1}"),
            "run.yaml:1:23: run.workers: \"257\" is out of range; use [1, 256]");
}

TEST(RunConfigErrorTest, NamesABadRunId) {
  EXPECT_EQ(ErrorOf("run: {id: ../up, workers: 1, rounds: 1}"),
            "run.yaml:1:11: run.id: run id \"../up\": use 1 to 64 of [A-Za-z0-9._-], starting with a letter or digit");
}

TEST(RunConfigErrorTest, NamesContradictions) {
  const std::vector<Case> cases = {
      {"method: diloco\nmax_late: 1", "run.yaml:3:11: max_late: method diloco allows only 0; remove the key"},
      {"method: delayed\nmax_late: 2", "run.yaml:3:11: max_late: method delayed allows only 0; remove the key"},
      {"method: diloco\nlookahead:\n  lambda: 1",
       "run.yaml:4:3: lookahead: method diloco has none; remove the section"},
      {"method: delayed\nlookahead:", "run.yaml:3:1: lookahead: method delayed has none; remove the section"},
      {"method: diloco\noverlap: 30", "run.yaml:3:10: overlap: method diloco does not overlap; remove the key"},
      {"inner_steps: 20\noverlap: 30",
       "run.yaml:3:10: overlap: 30 is not 1 to 16 times inner_steps, 20, as method eager needs"},
      {"overlap: 0", "run.yaml:2:10: overlap: 0 is not 1 to 16 times inner_steps, 30, as method eager needs"},
      {"method: delayed\noverlap: 510",
       "run.yaml:3:10: overlap: 510 is not 1 to 16 times inner_steps, 30, as method delayed needs"},
      {"method: streaming\noverlap: 30",
       "run.yaml:3:10: overlap: 30 is not less than inner_steps, 30, as method streaming needs"},
      {"streaming: {mixing: 0}", "run.yaml:2:12: streaming: method eager has none; remove the section"},
      {"fragments: {count: 2, layers_each: 3}",
       "run.yaml:2:36: fragments.layers_each: the fragments are given already; keep one of count, layers_each and "
       "layers"},
      {"fragments: {pattern: strided}", "run.yaml:2:22: fragments.pattern: only layers_each has one; remove the key"},
      {"inner_steps: 20\nfragments: {offsets: [0, 20]}",
       "run.yaml:3:22: fragments.offsets: 20 is not less than inner_steps, 20"},
      {"fragments: {layers: [[0, 1], [1]]}", "run.yaml:2:21: fragments.layers: layer 1 is in two fragments"},
      {"fragments: {layers: [[0], [2]]}\nmodel: {layers: 3, width: 24, heads: 3, sequence: 8}",
       "run.yaml:2:21: fragments.layers: layer 1 of the model is in none of the fragments; add it to one"},
      {"fragments: {layers: [[0], [3]]}\nmodel: {layers: 3, width: 24, heads: 3, sequence: 8}",
       "run.yaml:2:21: fragments.layers: layer 3 is not one of the model's"},
      {"inner: {optimizer: sgd, beta1: 0.9}", "run.yaml:2:32: inner.beta1: optimizer sgd has none; remove the key"},
      {"inner:\n  beta2: 0.9\n  optimizer: sgd", "run.yaml:3:10: inner.beta2: optimizer sgd has none; remove the key"},
      {"inner: {optimizer: sgd, epsilon: 1e-8}",
       "run.yaml:2:34: inner.epsilon: optimizer sgd has none; remove the key"},
      {"inner: {optimizer: sgd, weight_decay: 0}",
       "run.yaml:2:39: inner.weight_decay: optimizer sgd has none; remove the key"},
      {"outer: {optimizer: sgd, momentum: 0.9}",
       "run.yaml:2:35: outer.momentum: optimizer sgd has none; remove the key"},
      {"wire: {rounding: stochastic, uplink: fp32, downlink: fp32}",
       "run.yaml:2:18: wire.rounding: fp32 rounds nothing, and both ways use it; remove the key"},
      {"wire: {error_feedback: both, uplink: fp32}",
       "run.yaml:2:24: wire.error_feedback: wire.uplink is fp32, which loses nothing; leave it out"},
      {"wire: {error_feedback: both, downlink: fp32}",
       "run.yaml:2:24: wire.error_feedback: wire.downlink is fp32, which loses nothing; leave it out"},
      {"outer: {beta1: 0.5}", "run.yaml:2:16: outer.beta1: optimizer nesterov has none; remove the key"},
      {"method: diloco\nouter: {optimizer: adagrad, beta2: 0.5}",
       "run.yaml:3:36: outer.beta2: optimizer adagrad has none; remove the key"},
      {"method: diloco\nouter: {optimizer: sgd, epsilon: 0.5}",
       "run.yaml:3:34: outer.epsilon: optimizer sgd has none; remove the key"},
      {"outer: {optimizer: adam}",
       "run.yaml:2:20: lookahead.momentum: optimizer adam is not linear, as `own` needs; use `shared`"},
      {"lookahead: {momentum: own}\nouter: {optimizer: adamw}",
       "run.yaml:2:23: lookahead.momentum: optimizer adamw is not linear, as `own` needs; use `shared`"},
      {"method: blend\nouter: {optimizer: yogi}",
       "run.yaml:3:20: outer.optimizer: yogi is not linear, as method blend needs; use nesterov or sgd"},
      {"method: blend\nlookahead: {lambda: 1}", "run.yaml:3:12: lookahead: method blend has none; remove the section"},
      {"blend: {alpha: 0.5}", "run.yaml:2:8: blend: method eager does not blend; remove the section"},
      {"method: blend\nmax_late: 1", "run.yaml:3:11: max_late: method blend allows only 0; remove the key"},
      {"method: data-parallel\ninner_steps: 30",
       "run.yaml:3:14: inner_steps: method data-parallel averages every step; remove the key"},
      {"method: data-parallel\noverlap: 1",
       "run.yaml:3:10: overlap: method data-parallel does not overlap; remove the key"},
      {"method: data-parallel\nfragments: {count: 8}",
       "run.yaml:3:20: fragments: method data-parallel clips by the norm of the whole average, so that it needs one "
       "fragment; remove the section"},
      {"method: data-parallel\nfragments: {layers_each: 1}",
       "run.yaml:3:26: fragments: method data-parallel clips by the norm of the whole average, so that it needs one "
       "fragment; remove the section"},
      {"method: data-parallel\nouter: {rate: 0.4}",
       "run.yaml:3:15: outer.rate: method data-parallel takes inner.rate; remove the key"},
      {"method: data-parallel\nouter: {beta2: 0.4}",
       "run.yaml:3:16: outer.beta2: method data-parallel takes inner.beta2; remove the key"},
      {"method: data-parallel\ninner: {optimizer: adamw}",
       "run.yaml:3:20: inner.optimizer: method data-parallel has outer.optimizer in its place; remove the key"},
      {"method: data-parallel\nouter: {optimizer: sgd}\ninner: {beta1: 0.9}",
       "run.yaml:4:16: inner.beta1: optimizer sgd has none; remove the key"},
      {"method: data-parallel\nouter: {momentum: 0.4}",
       "run.yaml:3:19: outer.momentum: optimizer adamw has none; remove the key"},
      {"rounds: {quorum: 5}", "run.yaml:2:18: rounds.quorum: 5 is more than run.workers, 4"},
      {"rounds: {grace_floor: 2s}",
       "run.yaml:2:23: rounds.grace_floor: rounds.grace_window is fixed; remove the key, or write `adaptive` there"},
      {"rounds: {grace_window: 10s, grace_cap: 20s}",
       "run.yaml:2:40: rounds.grace_cap: rounds.grace_window is fixed; remove the key, or write `adaptive` there"},
      {"rounds: {grace_window: adaptive, grace_floor: 3m}",
       "run.yaml:2:47: rounds.grace_floor: 3m is more than rounds.grace_cap, 2m"},
      {"rounds: {grace_window: adaptive, grace_cap: 500ms}",
       "run.yaml:2:45: rounds.grace_floor: 1s is more than rounds.grace_cap, 500ms"},
      {"rounds: {lease: 5s}", "run.yaml:2:17: rounds.lease: 5s is less than 3 times rounds.heartbeat_interval, 2s"},
      {"rounds: {heartbeat_interval: 7s}",
       "run.yaml:2:30: rounds.lease: 20s is less than 3 times rounds.heartbeat_interval, 7s"},
      {"inner: {batch_size: 10, accumulation: 3}",
       "run.yaml:2:39: inner.accumulation: 3 does not divide inner.batch_size, 10"},
      {"inner: {accumulation: 3}", "run.yaml:2:23: inner.accumulation: 3 does not divide inner.batch_size, 16"},
      {"eval: {every: 2, held_out: 0}",
       "run.yaml:2:15: eval.every: eval.held_out is 0, so there is nothing to evaluate on"},
      {"model: {layers: 1, width: 36, heads: 4, sequence: 8}",
       "run.yaml:2:27: model.width: 36 is not a multiple of 2 * model.heads, 8, as rotary positions need"},
      {"model:", "run.yaml:2:1: model.layers is missing; add it"},
  };
  for (const Case& c : cases) EXPECT_EQ(ErrorAfterRun(c.yaml), c.error);
}

// The first in the file; absent keys after those that are wrong, since a misspelt key explains them.
TEST(RunConfigErrorTest, ReportsTheFirstError) {
  EXPECT_EQ(ErrorAfterRun("fragments: {count: 0}\ninner_steps: 0"),
            "run.yaml:2:20: fragments.count: \"0\" is out of range; use [1, 1024]");
  EXPECT_EQ(ErrorOf("run: {id: a, worker: 2, rounds: 3}"),
            "run.yaml:1:14: unknown key run.\"worker\"; did you mean `workers`?");
  EXPECT_EQ(ErrorOf("method: diloco\nrnu: {id: a, workers: 2, rounds: 3}"),
            "run.yaml:2:1: unknown key \"rnu\"; did you mean `run`?");
}

}  // namespace
}  // namespace diloco
