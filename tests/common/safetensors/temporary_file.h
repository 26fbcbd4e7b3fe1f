// A file in a folder of its own, gone with the object.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace diloco {

class TemporaryFile {
 public:
  TemporaryFile() {
    std::string pattern = testing::TempDir() + "/safetensors_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  explicit TemporaryFile(std::string_view content) : TemporaryFile() {
    std::ofstream(path(), std::ios::binary) << content;
  }
  ~TemporaryFile() { std::filesystem::remove_all(folder_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::string path() const { return folder_ / "model.safetensors"; }
  std::string Content() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::filesystem::path folder_;
};

// A file of the format: the header's size, the header, the data.
inline std::string SafetensorsBytes(std::string_view header, std::string_view data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(header.size() >> (8 * i)));
  bytes += header;
  bytes += data;
  return bytes;
}

}  // namespace diloco
