#include "coordinator/app/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_format.h"

#include <nlohmann/json.hpp>

namespace diloco {
namespace {

absl::Status FileError(const char* flag, const std::string& path, const char* what) {
  return absl::InvalidArgumentError(absl::StrFormat("%s %s: %s: %s", flag, path, what, std::strerror(errno)));
}

}  // namespace

absl::Status CheckPortFile(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
    return FileError("--port-file", path, "its folder cannot be written to");
  }
  return absl::OkStatus();
}

absl::Status WritePortFile(const std::string& path, const std::string& listen, const std::string& http) {
  if (path.empty()) return absl::OkStatus();
  const nlohmann::json addresses = {
      {"listen", listen}, {"http", http == "none" ? nlohmann::json() : nlohmann::json(http)}, {"pid", getpid()}};
  const std::string temporary = absl::StrFormat("%s.%d.tmp", path, getpid());
  std::ofstream file(temporary);
  file << addresses.dump() << '\n';
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const absl::Status status = FileError("--port-file", path, "cannot be written");
    std::remove(temporary.c_str());
    return status;
  }
  return absl::OkStatus();
}

void RemovePortFile(const std::string& path) {
  if (!path.empty()) std::remove(path.c_str());
}

}  // namespace diloco
