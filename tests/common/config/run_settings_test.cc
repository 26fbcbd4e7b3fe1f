// What may change in mid-run, and what holds in which round.
#include "common/config/run_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/limits.h"
#include "common/config/run_settings_proto.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFile[] = R"(run: {id: demo, workers: 3, rounds: 40}  # A comment.
inner_steps: 10
model: {layers: 1, width: 8, heads: 1, sequence: 4}
outer: {rate: 0.4}
rounds: {quorum: 2, lease: 20s}
)";

RunConfig Parse(const std::string& yaml) {
  const absl::StatusOr<RunConfig> config = ParseRunConfig(yaml, "run.yaml");
  EXPECT_TRUE(config.ok()) << config.status() << yaml;
  return config.value_or(RunConfig());
}

TEST(RunSettingsTest, EverySettingThatMayChangeIsTakenAsTheFileTakesIt) {
  const RunConfig config = Parse(kFile);
  const std::vector<Setting> settings = {
      {"run.rounds", "50"},         {"outer.rate", "0.25"},        {"inner.rate", "1e-4"},
      {"inner.final_ratio", "0.5"}, {"rounds.quorum", "3"},        {"rounds.grace_window", "adaptive"},
      {"rounds.grace_floor", "2s"}, {"rounds.grace_cap", "1m30s"}, {"rounds.timeout", "5m"},
      {"rounds.late", "drop"},      {"rounds.lease", "1m"},        {"rounds.snapshot_every", "7"},
      {"eval.every", "4"}};
  const absl::StatusOr<RunConfig> changed = WithSettings(config, settings);
  ASSERT_TRUE(changed.ok()) << changed.status();
  const RunConfig expected = Parse(R"(run: {id: demo, workers: 3, rounds: 50}
inner_steps: 10
model: {layers: 1, width: 8, heads: 1, sequence: 4}
outer: {rate: 0.25}
inner: {rate: 1e-4, final_ratio: 0.5}
rounds: {quorum: 3, lease: 1m, grace_window: adaptive, grace_floor: 2s, grace_cap: 90s, timeout: 5m, late: drop, snapshot_every: 7}
eval: {every: 4}
)");
  EXPECT_EQ(CanonicalSettings(*changed), CanonicalSettings(expected));
  // Each is among the keys, and comes back as text that means the same.
  EXPECT_EQ(ChangeableKeys().size() + 1, settings.size());
  const absl::StatusOr<RunConfig> again = WithSettings(config, CurrentSettings(*changed));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(CanonicalSettings(*again), CanonicalSettings(expected));
  EXPECT_EQ(DifferingSettings(config, *changed).size(), settings.size());
  EXPECT_TRUE(DifferingSettings(*again, *changed).empty());
}

TEST(RunSettingsTest, WhatIsWrongIsSaidInOneSentence) {
  const RunConfig config = Parse(kFile);
  const std::vector<std::pair<Setting, std::string>> wrong = {
      {{"method", "diloco"},
       "\"method\" may not change in mid-run; what may: outer.rate, inner.rate, inner.final_ratio, "
       "rounds.quorum"},
      {{"outer.momentum", "0.5"}, "may not change in mid-run"},
      {{"", "1"}, "may not change in mid-run"},
      {{"outer.rate", "0"}, "outer.rate: \"0\" is out of range; use (0, 10]"},
      {{"outer.rate", "nan"}, "outer.rate: \"nan\" is not a finite number"},
      {{"outer.rate", ""}, "outer.rate: \"\" is not a value"},
      {{"outer.rate", "1\nmethod: diloco"}, "is not a value"},
      {{"outer.rate", "0.1, momentum: 0"}, "is not a value"},
      {{"outer.rate", std::string(1000, '1')}, "is not a value"},
      {{"rounds.quorum", "4"}, "rounds.quorum: 4 is more than run.workers, 3"},
      {{"rounds.quorum", "1.5"}, "is not a whole number"},
      {{"rounds.lease", "1s"}, "rounds.lease: 1s is less than 3 times rounds.heartbeat_interval, 2s"},
      {{"rounds.grace_floor", "1s"}, "rounds.grace_window is fixed"},
      {{"rounds.late", "never"}, "\"never\" is unknown; use one of merge, drop"},
      {{"run.rounds", "2000000000"}, "is out of range"}};
  for (const auto& [setting, message] : wrong) {
    const absl::Status status = WithSettings(config, {setting}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << setting.key << "=" << setting.value;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
    EXPECT_LT(status.message().size(), 400u);
  }
  EXPECT_EQ(WithSettings(config, {{"outer.rate", "1"}, {"outer.rate", "1"}}).status().message(),
            "outer.rate is given twice; give it once");
}

TEST(RunSettingsTest, OfDataParallelTheInnerRateIsTheOuterRate) {
  const RunConfig config = Parse("run: {id: a, workers: 1, rounds: 9}\nmethod: data-parallel\n");
  EXPECT_THAT(std::string(WithSettings(config, {{"outer.rate", "0.1"}}).status().message()), HasSubstr("inner.rate"));
  const absl::StatusOr<RunConfig> changed = WithSettings(config, {{"inner.rate", "0.01"}});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(changed->outer.rate, 0.01);
  for (const Setting& setting : CurrentSettings(config)) EXPECT_NE(setting.key, "outer.rate");
}

TEST(RunSettingsTest, EachRoundHasWhatHoldsInIt) {
  const RunConfig config = Parse(kFile);
  const absl::StatusOr<RunSettings> settings =
      RunSettings::Make(config, {{0, CurrentSettings(config)},
                                 {5, {{"outer.rate", "0.2"}}},
                                 {3, {{"rounds.quorum", "1"}}},  // Made later, and holds at once.
                                 {5, {{"outer.rate", "0.1"}}},
                                 {9, {{"run.rounds", "60"}, {"outer.rate", "0.3"}}}});
  ASSERT_TRUE(settings.ok()) << settings.status();
  const std::vector<std::pair<int64_t, double>> rates = {{0, 0.4}, {4, 0.4}, {5, 0.1}, {8, 0.1}, {9, 0.3}, {1000, 0.3}};
  for (const auto& [round, rate] : rates) EXPECT_EQ(settings->At(round).outer.rate, rate) << round;
  EXPECT_EQ(settings->At(8).run.rounds, 40);
  EXPECT_EQ(settings->newest().run.rounds, 60);
  EXPECT_EQ(settings->newest().rounds.quorum, 1);
  EXPECT_EQ(settings->newest().model->width, 8) << "the model is as it was";
  EXPECT_EQ(settings->changes().size(), 5u);
}

TEST(RunSettingsTest, TheFirstChangeSaysHowTheRunBeganWhateverTheFileSaysNow) {
  const RunConfig began = Parse(kFile);
  const RunConfig now = Parse(
      "run: {id: demo, workers: 3, rounds: 99}\ninner_steps: 10\nouter: {rate: 0.9}\n"
      "rounds: {quorum: 1}\n");
  const absl::StatusOr<RunSettings> settings = RunSettings::Make(now, {{0, CurrentSettings(began)}});
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->newest().outer.rate, 0.4);
  EXPECT_EQ(settings->newest().run.rounds, 40);
  EXPECT_EQ(settings->newest().rounds.quorum, 2);
}

TEST(RunSettingsTest, TheEffectiveFileMeansWhatHoldsNow) {
  EXPECT_EQ(EffectiveYaml(kFile, Parse(kFile)), kFile);
  const std::string adaptive =
      "run: {id: \"0123\", workers: 3, rounds: 40}\nrounds: {grace_window: adaptive, grace_floor: 2s}\n";
  for (const std::string& file : {std::string(kFile), adaptive}) {
    const RunConfig config = Parse(file);
    const absl::StatusOr<RunSettings> settings = RunSettings::Make(
        config, {{0, CurrentSettings(config)}, {4, {{"outer.rate", "0.1"}}}, {2, {{"rounds.grace_window", "3s"}}}});
    ASSERT_TRUE(settings.ok()) << settings.status();
    RunConfig expected = settings->newest();
    const RunConfig effective = Parse(EffectiveYaml(file, *settings));
    expected.rounds.grace_floor = effective.rounds.grace_floor;  // Without a meaning while the window is fixed.
    EXPECT_EQ(CanonicalSettings(effective), CanonicalSettings(expected)) << EffectiveYaml(file, *settings);
  }
}

// By hand: with the averages of V rounds a worker has passed boundaries up to the one that needs V + 1.
TEST(RunSettingsTest, NobodyCanHaveBegunTheRoundThatAChangeHoldsFrom) {
  const auto config = [](const std::string& method) {
    return Parse("run: {id: a, workers: 1, rounds: 99}\ninner_steps: 10\nmethod: " + method + "\n");
  };
  // Blocking: with 7 averages it trains in round 7, and waits at that round's end.
  EXPECT_EQ(FirstRoundNotBegun(config("diloco"), {0, 0}, 7), 8);
  // One round of overlap: it trains in round 8, and waits at its end for the average of round 7.
  EXPECT_EQ(FirstRoundNotBegun(config("delayed"), {0, 0}, 7), 9);
  // And one more that may be late.
  EXPECT_EQ(FirstRoundNotBegun(config("eager"), {0, 0}, 7), 10);
  // A fragment that ends its rounds 5 steps later lets it into the next round.
  EXPECT_EQ(FirstRoundNotBegun(config("eager"), {0, 5}, 7), 11);
  // Applied one step after the boundary: the average of round 7 is waited for in round 8.
  EXPECT_EQ(FirstRoundNotBegun(config("streaming"), {0}, 7), 9);
}

TEST(RunSettingsTest, WhatComesFromAPeerIsChecked) {
  const RunConfig config = Parse(kFile);
  google::protobuf::RepeatedPtrField<v1::RunChange> changes =
      RunChangesToProto({{0, CurrentSettings(config)}, {6, {{"outer.rate", "0.2"}}}});
  const absl::StatusOr<RunSettings> settings = RunSettingsFromProto(config, changes);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->At(6).outer.rate, 0.2);
  changes.at(1).set_from_round(-1);
  EXPECT_EQ(RunSettingsFromProto(config, changes).status().code(), absl::StatusCode::kInvalidArgument);
  changes.at(1).set_from_round(6);
  changes.at(1).mutable_settings(0)->set_key("method");
  EXPECT_EQ(RunSettingsFromProto(config, changes).status().code(), absl::StatusCode::kInvalidArgument);
  changes.Clear();
  for (int i = 0; i <= kMaxRunChanges; ++i) changes.Add();
  EXPECT_THAT(std::string(RunSettingsFromProto(config, changes).status().message()), HasSubstr("more than 64"));
}

}  // namespace
}  // namespace diloco
