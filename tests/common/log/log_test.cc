#include "common/log/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "nlohmann/json.hpp"

namespace diloco {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

// Breaks lines, quotes and terminals, and is no UTF-8.
const std::string kHostile = std::string("a\nlevel=error \"x\" \\ \x1b[2J \xc2\x9b \xff\xfe {}") + '\0' + "%v";

class LogTest : public testing::Test {
 protected:
  void SetUp() override { CaptureStderr(); }
  void TearDown() override {
    SetLogContext({});
    GetCapturedStderr();
    ASSERT_TRUE(InitLog({}).ok());
  }
  // What was written since.
  static std::string Written() {
    std::string text = GetCapturedStderr();
    CaptureStderr();
    return text;
  }
};

TEST_F(LogTest, WritesOneLineAnEventToStderr) {
  ASSERT_TRUE(InitLog({}).ok());
  LogInfo("probe", {{"worker", "east"}, {"round", 7}, {"seconds", 0.25}, {"returning", true}, {"reason", "two words"}});
  EXPECT_THAT(Written(), MatchesRegex("time=[0-9]+-[0-9]+-[0-9]+T[0-9:]+\\.[0-9]+Z level=info event=probe worker=east "
                                      "round=7 seconds=0.25 returning=true reason=\"two words\"\n"));
}

TEST_F(LogTest, WritesOneObjectALineAsJson) {
  ASSERT_TRUE(InitLog({.format = "json"}).ok());
  LogWarning("probe", {{"worker", "east"}, {"round", int64_t{1} << 60}, {"seconds", 0.25}, {"returning", false}});
  const std::string line = Written();
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  json object = json::parse(line);
  EXPECT_THAT(object.at("time").get<std::string>(), MatchesRegex("[0-9]+-[0-9]+-[0-9]+T[0-9:]+\\.[0-9]+Z"));
  object.erase("time");
  EXPECT_EQ(object, json({{"level", "warning"},
                          {"event", "probe"},
                          {"worker", "east"},
                          {"round", int64_t{1} << 60},
                          {"seconds", 0.25},
                          {"returning", false}}));
}

TEST_F(LogTest, AnyTextStaysOnItsLine) {
  ASSERT_TRUE(InitLog({}).ok());
  LogInfo("probe", {{"reason", kHostile}, {"empty", ""}, {"round", 1}});
  const std::string line = Written();
  EXPECT_THAT(line, HasSubstr(R"(reason="a\nlevel=error \"x\" \\ \u001b[2J \u009b \ufffd\ufffd {}\u0000%v" )"
                              R"(empty="" round=1)"));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

TEST_F(LogTest, AnyTextIsAJsonString) {
  ASSERT_TRUE(InitLog({.format = "json"}).ok());
  LogInfo("probe", {{"reason", kHostile}});
  const std::string line = Written();
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const std::string mended =
      std::string("a\nlevel=error \"x\" \\ \x1b[2J \xc2\x9b \xef\xbf\xbd\xef\xbf\xbd {}") + '\0' + "%v";
  EXPECT_EQ(json::parse(line).at("reason"), mended);
}

TEST_F(LogTest, ANumberThatIsNotFiniteIsNullInJson) {
  ASSERT_TRUE(InitLog({.format = "json"}).ok());
  LogInfo("probe", {{"norm", std::numeric_limits<double>::infinity()}, {"loss", std::nan("")}});
  const json object = json::parse(Written());
  EXPECT_TRUE(object.at("norm").is_null());
  EXPECT_TRUE(object.at("loss").is_null());
}

TEST_F(LogTest, EveryLineEndsWithTheContextThatItDoesNotSayItself) {
  ASSERT_TRUE(InitLog({}).ok());
  SetLogContext({{"run", "english"}, {"worker", "east"}});
  LogInfo("first", {{"round", 1}});
  LogInfo("second", {{"worker", "west"}});
  SetLogContext({});
  LogInfo("third");
  const std::string text = Written();
  EXPECT_THAT(text, HasSubstr("event=first round=1 run=english worker=east\n"));
  EXPECT_THAT(text, HasSubstr("event=second worker=west run=english\n"));
  EXPECT_THAT(text, HasSubstr("event=third\n"));
}

TEST_F(LogTest, LeavesOutWhatIsBelowTheLevel) {
  ASSERT_TRUE(InitLog({.level = "warning"}).ok());
  LogDebug("hidden");
  LogInfo("hidden");
  LogWarning("shown");
  LogError("shown_too");
  const std::string text = Written();
  EXPECT_THAT(text, Not(HasSubstr("hidden")));
  EXPECT_THAT(text, HasSubstr("level=warning event=shown\n"));
  EXPECT_THAT(text, HasSubstr("level=error event=shown_too\n"));
}

TEST_F(LogTest, SaysWhyTheProgramEndsAsTheLogIsRead) {
  ASSERT_TRUE(InitLog({}).ok());
  SayFailure("diloco-worker", "no route to \"west\"");
  EXPECT_EQ(Written(), "diloco-worker: no route to \"west\"\n");
  ASSERT_TRUE(InitLog({.format = "json"}).ok());
  SayFailure("diloco-worker", "no route to \"west\"");
  const json object = json::parse(Written());
  EXPECT_EQ(object.at("level"), "error");
  EXPECT_EQ(object.at("event"), "failed");
  EXPECT_EQ(object.at("reason"), "no route to \"west\"");
}

TEST_F(LogTest, RefusesAnUnknownLevelOrFormat) {
  for (const char* level : {"", "loud", "INFO", "warn"}) {
    EXPECT_EQ(InitLog({.level = level}).code(), absl::StatusCode::kInvalidArgument) << level;
  }
  for (const char* format : {"", "xml", "JSON"}) {
    const absl::Status status = InitLog({.format = format});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << format;
    EXPECT_THAT(std::string(status.message()), HasSubstr("use one of text, json"));
  }
}

}  // namespace
}  // namespace diloco
