#include "common/config/config_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include <nlohmann/json.hpp>

namespace diloco {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunConfig Parsed(const std::string& more) {
  const absl::StatusOr<RunConfig> config = ParseRunConfig("run: {id: r1, workers: 3, rounds: 7}\n" + more, "run.yaml");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.value_or(RunConfig());
}

TEST(ConfigJsonTest, HasWhatTheFileSaysAndEveryDefault) {
  const nlohmann::json json = nlohmann::json::parse(
      ConfigJson(Parsed("inner_steps: 50\nrounds: {quorum: 2, grace_window: 1m30s}\nwire: {error_feedback: both}\n")));
  EXPECT_EQ(json["run"]["id"], "r1");
  EXPECT_EQ(json["run"]["workers"], 3);
  EXPECT_EQ(json["run"]["seed"], 1);
  EXPECT_EQ(json["method"], "eager");
  EXPECT_EQ(json["inner_steps"], 50);
  EXPECT_EQ(json["overlap"], 50) << "the method's default";
  EXPECT_EQ(json["outer"]["rate"], 0.4) << "the optimizer's preset";
  EXPECT_EQ(json["rounds"]["quorum"], 2);
  EXPECT_EQ(json["rounds"]["grace_window"], "1m30s");
  EXPECT_EQ(json["rounds"]["timeout"], "none");
  EXPECT_EQ(json["rounds"]["late"], "merge");
  EXPECT_EQ(json["wire"]["error_feedback"], "both");
  EXPECT_EQ(json["lookahead"]["momentum"], "own");
  EXPECT_FALSE(json.contains("streaming")) << "of another method";
  EXPECT_FALSE(json.contains("model")) << "the file has none";
}

TEST(ConfigJsonTest, ListsAreLists) {
  const nlohmann::json json = nlohmann::json::parse(
      ConfigJson(Parsed("fragments: {layers: [[0, 2], [1]], offsets: [0, 15]}\nrounds: {grace_window: adaptive}\n")));
  EXPECT_EQ(json["fragments"]["layers"], nlohmann::json::parse("[[0, 2], [1]]"));
  EXPECT_EQ(json["fragments"]["offsets"], nlohmann::json::parse("[0, 15]"));
  EXPECT_EQ(json["rounds"]["grace_window"], "adaptive");
}

TEST(ConfigTextTest, IsALineASetting) {
  const std::string text = ConfigText(Parsed("method: diloco\nrounds: {lease: 45s}\n"));
  EXPECT_THAT(text, HasSubstr("\nmethod "));
  EXPECT_THAT(text, HasSubstr(" diloco\n"));
  EXPECT_THAT(text, HasSubstr("\nrounds.lease "));
  EXPECT_THAT(text, HasSubstr(" 45s\n"));
  EXPECT_THAT(text, Not(HasSubstr("lookahead")));
}

}  // namespace
}  // namespace diloco
