// A folder of its own for each test, removed afterwards, so that tests run side by side.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "common/base/check.h"

namespace diloco {

class TempFolder {
 public:
  TempFolder() : path_(testing::TempDir() + "/diloco.XXXXXX") { DILOCO_CHECK(mkdtemp(path_.data()) != nullptr); }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string Path(std::string_view name) const { return path_ + "/" + std::string(name); }

  // Writes a file, with the folders that lead to it, and returns its path.
  std::string Write(std::string_view name, std::string_view bytes) const {
    const std::string path = Path(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

 private:
  std::string path_;
};

}  // namespace diloco
