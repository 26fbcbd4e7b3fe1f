#include "common/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace diloco {
namespace {

// Check values of RFC 3720, appendix B.4.
TEST(Crc32cTest, MatchesPublishedVectors) {
  std::string ascending;
  for (int i = 0; i < 32; ++i) ascending.push_back(static_cast<char>(i));
  EXPECT_EQ(ComputeCrc32c(std::string(32, '\0')).value, 0x8A9136AAu);
  EXPECT_EQ(ComputeCrc32c(std::string(32, '\xFF')).value, 0x62A8AB43u);
  EXPECT_EQ(ComputeCrc32c(ascending).value, 0x46DD794Eu);
  EXPECT_EQ(ComputeCrc32c("123456789").value, 0xE3069283u);
  EXPECT_EQ(ComputeCrc32c("").value, 0u);
}

TEST(Crc32cTest, PortableAgreesWithDispatchedAtEveryLength) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(ComputeCrc32c(bytes), ComputeCrc32cPortable(bytes)) << i;
    bytes.push_back(static_cast<char>(i * 37 + 11));
  }
}

}  // namespace
}  // namespace diloco
