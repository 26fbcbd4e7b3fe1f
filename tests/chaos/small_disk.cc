#include "tests/chaos/small_disk.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace diloco::testing {

SmallDisk::SmallDisk(std::string folder, int64_t bytes) : folder_(std::move(folder)) {
  if (bytes == 0) return;
  std::filesystem::create_directories(folder_);
  mounted_ = unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
             mount("small", folder_.c_str(), "tmpfs", 0, absl::StrCat("size=", bytes).c_str()) == 0;
}

SmallDisk::~SmallDisk() {
  if (mounted_) umount2(folder_.c_str(), MNT_DETACH);  // A process may still be there.
}

void SmallDisk::Fill() {
  const std::vector<char> zeros(1 << 12);
  const int file = open(filler().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  while (file >= 0 && write(file, zeros.data(), zeros.size()) > 0) {
  }
  close(file);
}

void SmallDisk::Free() { unlink(filler().c_str()); }

}  // namespace diloco::testing
