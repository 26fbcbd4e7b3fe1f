#include "common/base/atomic_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

namespace diloco {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public testing::Test {
 protected:
  AtomicFileTest() : folder_(fs::path(testing::TempDir()) / ("atomic_file_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~AtomicFileTest() override { fs::remove_all(folder_); }

  std::string Path() const { return (folder_ / "file").string(); }
  std::string Content() const {
    std::ifstream file(Path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  long Files() const { return std::distance(fs::directory_iterator(folder_), {}); }

  const fs::path folder_;
};

TEST_F(AtomicFileTest, AppearsWholeAndReplaces) {
  std::ofstream(Path()) << "old";
  auto file = AtomicFile::Create(Path());
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Write("new ").ok());
  ASSERT_TRUE((*file)->Write(std::string("a\0b", 3)).ok());
  EXPECT_EQ(Content(), "old");
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_EQ(Content(), std::string("new a\0b", 7));
  file->reset();
  EXPECT_EQ(Content(), std::string("new a\0b", 7));
  EXPECT_EQ(Files(), 1);
}

TEST_F(AtomicFileTest, LeavesNothingBehindWithoutCommit) {
  std::ofstream(Path()) << "old";
  {
    auto file = AtomicFile::Create(Path());
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Write("new").ok());
  }
  EXPECT_EQ(Content(), "old");
  EXPECT_EQ(Files(), 1);
}

TEST_F(AtomicFileTest, OverwritesTheLeftoverOfACrash) {
  std::ofstream(Path() + ".tmp") << "a long leftover";
  auto file = AtomicFile::Create(Path());
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Write("new").ok());
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_EQ(Content(), "new");
  EXPECT_EQ(Files(), 1);
}

TEST_F(AtomicFileTest, SaysWhatItCannotDo) {
  const auto file = AtomicFile::Create((folder_ / "missing" / "file").string());
  EXPECT_EQ(file.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(file.status().message().find("missing/file.tmp: No such file"), std::string::npos) << file.status();

  fs::create_directories(folder_ / "file" / "in the way");
  auto blocked = AtomicFile::Create(Path());
  ASSERT_TRUE(blocked.ok());
  EXPECT_FALSE((*blocked)->Commit().ok());
  blocked->reset();
  EXPECT_EQ(Files(), 1);
}

TEST_F(AtomicFileTest, FollowsNoLinkThatSomebodyLeft) {
  fs::create_symlink(folder_ / "elsewhere", folder_ / "file.tmp");
  EXPECT_FALSE(AtomicFile::Create(Path()).ok());
}

}  // namespace
}  // namespace diloco
