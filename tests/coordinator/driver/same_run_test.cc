// What a coordinator that comes back may find changed in its configuration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "coordinator/driver/recovery.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;

RunConfig Parse(const std::string& yaml) {
  absl::StatusOr<RunConfig> config = ParseRunConfig(yaml, "run.yaml");
  EXPECT_TRUE(config.ok()) << config.status() << yaml;
  return config.ok() ? *std::move(config) : RunConfig{};
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

constexpr char kEager[] =
    "run: {id: a, workers: 2, rounds: 9, seed: 1}\n"
    "method: eager\ninner_steps: 10\noverlap: 10\nmax_late: 1\n"
    "lookahead: {lambda: 1, momentum: own}\n"
    "outer: {optimizer: nesterov, rate: 0.4, momentum: 0.9, weights: uniform}\n"
    "inner: {optimizer: adamw, rate: 0.001}\n"
    "model: {layers: 2, width: 32, heads: 2, sequence: 16, precision: fp32}\n"
    "fragments: {count: 2, offsets: together}\n"
    "wire: {uplink: e3m0, downlink: int8, rounding: nearest, error_feedback: none, connections: 1}\n"
    "rounds: {quorum: 2, grace_window: 30s}\n"
    "eval: {every: 3}\n";

TEST(SameRunTest, WhatWorkersAgreeOnMayNotChange) {
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"id: a", "id: b"},
      {"seed: 1", "seed: 2"},
      {"overlap: 10", "overlap: 20"},
      {"max_late: 1", "max_late: 2"},
      {"lambda: 1,", "lambda: share,"},
      {"momentum: own", "momentum: shared"},
      {"optimizer: nesterov, rate: 0.4, momentum: 0.9", "optimizer: sgd, rate: 0.4"},
      {"weights: uniform", "weights: tokens"},
      {"optimizer: adamw", "optimizer: sgd"},
      {"width: 32", "width: 64"},
      {"precision: fp32", "precision: bf16"},
      {"count: 2", "count: 3"},
      {"offsets: together", "offsets: spread"},
      {"uplink: e3m0", "uplink: int4"},
      {"downlink: int8", "downlink: bf16"},
      {"rounding: nearest", "rounding: stochastic"},
      {"error_feedback: none", "error_feedback: uplink"},
  };
  for (const auto& [from, to] : changes) {
    const absl::Status status = CheckSameRun(Parse(kEager), Parse(Replaced(kEager, from, to)));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << to;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the data folder holds a run with ")) << to;
  }
  EXPECT_EQ(
      CheckSameRun(Parse(kEager), Parse(Replaced(kEager, "lambda: 1,", "lambda: share,"))).message(),
      "the data folder holds a run with lookahead.lambda 1, the configuration says share; use another data folder "
      "or put it back");
}

TEST(SameRunTest, SettingsOfOneMethodMayNotChange) {
  const std::string run = "run: {id: a, workers: 2, rounds: 9}\n";
  EXPECT_FALSE(CheckSameRun(Parse(run + "method: streaming\nstreaming: {mixing: 0.5}\n"),
                            Parse(run + "method: streaming\nstreaming: {mixing: 0.25}\n"))
                   .ok());
  EXPECT_FALSE(CheckSameRun(Parse(run + "method: blend\nblend: {alpha: 0.5}\n"),
                            Parse(run + "method: blend\nblend: {alpha: 0.25}\n"))
                   .ok());
}

TEST(SameRunTest, RatesQuorumAndLengthMayChange) {
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"rounds: 9", "rounds: 12"},
      {"rate: 0.4", "rate: 0.3"},
      {"momentum: 0.9", "momentum: 0.8"},
      {"quorum: 2", "quorum: 1"},
      {"grace_window: 30s", "grace_window: 10s"},
      {"connections: 1", "connections: 2"},
      {"every: 3", "every: 1"},
  };
  for (const auto& [from, to] : changes) {
    EXPECT_EQ(CheckSameRun(Parse(kEager), Parse(Replaced(kEager, from, to))), absl::OkStatus()) << to;
  }
}

}  // namespace
}  // namespace diloco
