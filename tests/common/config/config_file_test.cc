#include "common/config/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/limits.h"
#include "tests/support/temp_folder.h"

namespace diloco {
namespace {

using ::diloco::testing::TempFolder;
using ::testing::HasSubstr;

TEST(ConfigFileTest, IsReadWhole) {
  const TempFolder folder;
  const std::string text("a: 1\n\0b", 7);
  EXPECT_EQ(*ReadConfigFile(folder.Write("run.yaml", text)), text);
  EXPECT_EQ(*ReadConfigFile(folder.Write("empty.yaml", "")), "");
  EXPECT_EQ(ReadConfigFile(folder.Write("limit.yaml", std::string(kMaxConfigBytes, ' ')))->size(), kMaxConfigBytes);
}

TEST(ConfigFileTest, OneThatCannotBeReadIsNamed) {
  const TempFolder folder;
  for (const std::string& path :
       {folder.File("none.yaml"), folder.path(), folder.Write("large.yaml", std::string(kMaxConfigBytes + 1, ' '))}) {
    const absl::Status status = ReadConfigFile(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--config " + path));
  }
}

}  // namespace
}  // namespace diloco
