#include "common/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/check.h"

namespace diloco {
namespace {

absl::Status ErrnoStatus(std::string_view action, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrFormat("cannot %s %s", action, path));
}

absl::Status SyncFolderOf(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus("open", folder);
  const absl::Status status = ::fsync(fd) == 0 ? absl::OkStatus() : ErrnoStatus("sync", folder);
  ::close(fd);
  return status;
}

}  // namespace

AtomicFile::AtomicFile(std::string path, int fd) : path_(std::move(path)), temporary_(path_ + ".tmp"), fd_(fd) {}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(std::string path, Access access) {
  const std::string temporary = path + ".tmp";
  const mode_t mode = access == Access::kOwner ? 0600 : 0644;
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
  if (fd < 0) return ErrnoStatus("create", temporary);
  std::unique_ptr<AtomicFile> file(new AtomicFile(std::move(path), fd));
  // A leftover of a crash keeps the mode that it had.
  if (access == Access::kOwner && ::fchmod(fd, mode) != 0) return ErrnoStatus("protect", temporary);
  return file;
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!renamed_) ::unlink(temporary_.c_str());
}

absl::Status AtomicFile::Write(std::string_view bytes) {
  DILOCO_CHECK(fd_ >= 0);
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus("write", temporary_);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  DILOCO_CHECK(fd_ >= 0);
  if (::fsync(fd_) != 0) return ErrnoStatus("sync", temporary_);
  if (::close(std::exchange(fd_, -1)) != 0) return ErrnoStatus("close", temporary_);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return ErrnoStatus("replace", path_);
  renamed_ = true;
  return SyncFolderOf(path_);
}

}  // namespace diloco
