#include "common/config/config_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/str_format.h"

#include "common/base/limits.h"

namespace diloco {
namespace {

absl::Status CannotBe(const char* what, const std::string& path) {
  return absl::InvalidArgumentError(absl::StrFormat("--config %s: cannot be %s: %s", path, what, std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::string> ReadConfigFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CannotBe("opened", path);
  std::string text(kMaxConfigBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.gcount() == 0 && errno != 0)) return CannotBe("read", path);
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxConfigBytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--config %s: larger than %d bytes; this is no run configuration", path, kMaxConfigBytes));
  }
  return text;
}

}  // namespace diloco
