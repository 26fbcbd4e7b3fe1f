#include "common/files/lock_holder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/files/file_system.h"
#include "tests/support/temp_folder.h"

namespace diloco {
namespace {

TEST(LockHolderTest, NamesWhoHoldsItAndLeavesItAsItIs) {
  const ::diloco::testing::TempFolder folder;
  const std::string path = folder.File("LOCK");
  EXPECT_EQ(*LockHolder(path), "");
  EXPECT_FALSE(std::filesystem::exists(path)) << "a look makes no file";
  {
    const auto lock = PosixFileSystem()->Lock(path, "somebody pid 7");
    ASSERT_TRUE(lock.ok()) << lock.status();
    EXPECT_EQ(*LockHolder(path), "somebody pid 7");
    EXPECT_EQ(*LockHolder(path), "somebody pid 7") << "still";
  }
  EXPECT_EQ(*LockHolder(path), "") << "the name of a holder that is gone means nothing";
  EXPECT_TRUE(PosixFileSystem()->Lock(path, "another").ok()) << "the look has not kept it";
}

TEST(LockHolderTest, WhatCannotBeOpenedIsAnError) {
  const ::diloco::testing::TempFolder folder;
  EXPECT_FALSE(LockHolder(folder.Write("file", "") + "/LOCK").ok());
}

}  // namespace
}  // namespace diloco
