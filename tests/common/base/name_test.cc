#include "common/base/name.h"

#include <gtest/gtest.h>

#include <string>

namespace diloco {
namespace {

TEST(NameTest, AcceptsPlainNames) {
  for (const char* name : {"east", "eu-1", "0", "A.b_c-9"}) EXPECT_TRUE(ValidateName("worker id", name).ok()) << name;
  EXPECT_TRUE(ValidateName("worker id", std::string(64, 'x')).ok());
}

TEST(NameTest, RefusesWhatLabelsPathsOrPagesCouldTrip) {
  for (const std::string& name :
       {std::string(), std::string("dc\"1"), std::string("a\\b"), std::string("a\nb"), std::string("\xC0\xA7"),
        std::string("-x"), std::string("../x"), std::string("<b>"), std::string(65, 'x'), std::string("a\0b", 3)}) {
    const absl::Status status = ValidateName("worker id", name);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace diloco
