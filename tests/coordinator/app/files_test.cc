#include "coordinator/app/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_folder.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

using ::diloco::testing::TempFolder;
using ::testing::HasSubstr;

TEST(FilesTest, ThePortFileIsJsonAndLeavesNothingBesideIt) {
  const TempFolder folder;
  const std::string path = folder.File("ports.json");
  ASSERT_TRUE(WritePortFile(path, "127.0.0.1:1", "none").ok());
  ASSERT_TRUE(WritePortFile(path, "127.0.0.1:1", "127.0.0.1:2").ok());
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file);
  EXPECT_EQ(json["listen"], "127.0.0.1:1");
  EXPECT_EQ(json["http"], "127.0.0.1:2");
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++entries;
  EXPECT_EQ(entries, 1);
  RemovePortFile(path);
  RemovePortFile(path);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(FilesTest, APortFileThatCannotBeWrittenIsAnError) {
  const TempFolder folder;
  const std::string path = folder.File("no/such/folder.json");
  for (const absl::Status& status : {CheckPortFile(path), WritePortFile(path, "a", "b")}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("--port-file " + path));
  }
  EXPECT_TRUE(CheckPortFile("").ok());
  EXPECT_TRUE(CheckPortFile(folder.File("ports.json")).ok());
  EXPECT_TRUE(WritePortFile("", "a", "b").ok());
}

}  // namespace
}  // namespace diloco
