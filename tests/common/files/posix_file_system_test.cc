#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "common/files/file_system.h"
#include "tests/support/temp_folder.h"

namespace diloco {
namespace {

TEST(PosixFileSystemTest, AFileHasAnAge) {
  const ::diloco::testing::TempFolder folder;
  const std::string path = folder.Write("file", "x");
  const auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time(path, now - std::chrono::hours(2));
  const auto old = PosixFileSystem()->OpenForRead(path);
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_GE(*(*old)->Age(), absl::Hours(2));
  EXPECT_LT(*(*old)->Age(), absl::Hours(3));
  std::filesystem::last_write_time(path, now + std::chrono::hours(2));
  EXPECT_EQ(*(*old)->Age(), absl::ZeroDuration()) << "the clock was turned back";
}

}  // namespace
}  // namespace diloco
