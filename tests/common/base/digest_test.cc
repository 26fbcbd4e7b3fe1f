#include "common/base/digest.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace diloco {
namespace {

TEST(DigestTest, PiecesHashLikeTheirConcatenation) {
  DigestBuilder builder;
  builder.Add("outer ");
  builder.Add("gradient");
  EXPECT_EQ(builder.Finish(), DigestOf("outer gradient"));
}

TEST(DigestTest, FloatsHashAsLittleEndianBytes) {
  const std::vector<float> values = {1.0f, -2.0f};
  DigestBuilder builder;
  builder.Add(values);
  EXPECT_EQ(builder.Finish(), DigestOf(std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8)));
}

TEST(DigestTest, WireFormIsBigEndianAndReversible) {
  const Digest digest{0x0102030405060708u, 0x090a0b0c0d0e0f10u};
  EXPECT_EQ(digest.Bytes(), "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10");
  EXPECT_EQ(Digest::FromBytes(digest.Bytes()), digest);
  EXPECT_EQ(digest.Hex(), "0102030405060708090a0b0c0d0e0f10");
  EXPECT_EQ(Digest{}.Bytes(), "");
  EXPECT_TRUE(Digest::FromBytes("short").empty());
}

}  // namespace
}  // namespace diloco
