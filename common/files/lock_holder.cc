#include "common/files/lock_holder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace diloco {
namespace {

constexpr size_t kMaxHolderBytes = 256;

}  // namespace

absl::StatusOr<std::string> LockHolder(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return "";
  if (file < 0) return absl::ErrnoToStatus(errno, absl::StrFormat("cannot open \"%s\"", path));
  const absl::Cleanup close_file = [file] { close(file); };  // And with it the lock, if it was free.
  if (flock(file, LOCK_SH | LOCK_NB) == 0) return "";
  if (errno != EWOULDBLOCK) return absl::ErrnoToStatus(errno, absl::StrFormat("cannot lock \"%s\"", path));
  std::string holder(kMaxHolderBytes, '\0');
  const ssize_t read = pread(file, holder.data(), holder.size(), 0);
  holder.resize(read > 0 ? static_cast<size_t>(read) : 0);
  return holder.empty() ? "another process" : holder;
}

}  // namespace diloco
