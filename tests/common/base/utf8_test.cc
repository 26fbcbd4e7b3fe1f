#include "common/base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace diloco {
namespace {

// The code points at the ends of each length's range, and RFC 3629's own examples.
TEST(Utf8Test, AcceptsEndsOfEveryRange) {
  for (const char* text : {"", "plain", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                           "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "\xE6\x97\xA5\xE6\x9C\xAC"}) {
    EXPECT_TRUE(IsValidUtf8(text)) << text;
  }
  EXPECT_TRUE(IsValidUtf8(std::string("a\0b", 3)));
}

TEST(Utf8Test, RefusesWhatIsNotWellFormed) {
  for (const char* text : {"\x80", "\xBF", "\xFF", "\xFE",                      // Never a lead byte.
                           "\xC0\xA7", "\xC1\xBF", "\xE0\x9F\xBF",              // Overlong.
                           "\xF0\x8F\xBF\xBF", "\xED\xA0\x80", "\xED\xBF\xBF",  // Overlong, surrogates.
                           "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",              // Above U+10FFFF.
                           "\xC2", "\xE2\x82", "\xF0\x9F\x98", "\xE2\x28\xA1",  // Cut short.
                           "\xC2\x41", "\xE2\x82\x41", "a\xE2\x82\xAC\xE2\x82"}) {
    EXPECT_FALSE(IsValidUtf8(text)) << testing::PrintToString(std::string(text));
  }
}

TEST(Utf8Test, PrefixEndsBeforeTheBrokenCharacter) {
  EXPECT_EQ(ValidUtf8Prefix("ab\xC3\xA9z"), 5u);
  EXPECT_EQ(ValidUtf8Prefix("ab\xC3\xA9\xE2\x82z"), 4u);
  EXPECT_EQ(ValidUtf8Prefix("\xFFz"), 0u);
}

}  // namespace
}  // namespace diloco
