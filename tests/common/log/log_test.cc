#include "common/log/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <string>

namespace diloco {
namespace {

using testing::MatchesRegex;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

TEST(LogTest, WritesOneLineAnEventToStderr) {
  CaptureStderr();
  ASSERT_TRUE(InitLog("info").ok());
  spdlog::info("event=probe worker={}", "east");
  EXPECT_THAT(GetCapturedStderr(),
              MatchesRegex("time=[0-9]+-[0-9]+-[0-9]+T[0-9:]+\\.[0-9]+Z level=info event=probe worker=east\n"));
}

TEST(LogTest, LeavesOutWhatIsBelowTheLevel) {
  CaptureStderr();
  ASSERT_TRUE(InitLog("warning").ok());
  spdlog::info("event=hidden");
  spdlog::warn("event=shown");
  const std::string text = GetCapturedStderr();
  EXPECT_EQ(text.find("hidden"), std::string::npos);
  EXPECT_NE(text.find("level=warning event=shown"), std::string::npos);
}

TEST(LogTest, RefusesAnUnknownLevel) {
  for (const char* level : {"", "loud", "INFO", "warn"}) {
    EXPECT_EQ(InitLog(level).code(), absl::StatusCode::kInvalidArgument) << level;
  }
}

TEST(LogTest, QuotedKeepsAnyValueOnOneLine) {
  EXPECT_EQ(Quoted("two words"), "\"two words\"");
  EXPECT_EQ(Quoted("a\nlevel=error \"x\" \\"), "\"a\\nlevel=error \\\"x\\\" \\\\\"");
}

}  // namespace
}  // namespace diloco
