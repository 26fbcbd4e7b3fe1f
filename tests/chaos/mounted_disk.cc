#include "tests/chaos/mounted_disk.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "tests/support/coordinator_process.h"
#include "tests/support/process.h"

namespace diloco::testing {
namespace {

absl::Status RunTool(const std::vector<std::string>& command) {
  const absl::StatusOr<Finished> finished = RunProcess(command, kPatience);
  if (finished.ok() && finished->exit_code == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(command.front(), ": ", finished.ok() ? finished->errors : finished.status().ToString()));
}

// What is mounted after this is seen here only, and goes with the process, however that ends.
absl::Status KeepMountsPrivate() {
  if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat("no mounts of its own: ", std::strerror(errno)));
}

absl::Status MountImage(const std::string& image, const std::string& folder) {
  return RunTool({"/usr/bin/mount", "-o", "loop", image, folder});
}

}  // namespace

absl::StatusOr<MountedDisk> MountedDisk::Memory(const std::string& folder, int64_t bytes) {
  DILOCO_RETURN_IF_ERROR(KeepMountsPrivate());
  std::filesystem::create_directories(folder);
  if (mount("tmpfs", folder.c_str(), "tmpfs", 0, absl::StrCat("size=", bytes).c_str()) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot mount a tmpfs: ", std::strerror(errno)));
  }
  return MountedDisk(folder, "");
}

absl::StatusOr<MountedDisk> MountedDisk::Image(const std::string& folder, const std::string& image, int64_t bytes) {
  DILOCO_RETURN_IF_ERROR(KeepMountsPrivate());
  std::filesystem::create_directories(folder);
  WriteFile(image, "");
  std::filesystem::resize_file(image, static_cast<uintmax_t>(bytes));
  DILOCO_RETURN_IF_ERROR(RunTool({"/sbin/mkfs.ext4", "-q", "-F", "-e", "remount-ro", image}));
  DILOCO_RETURN_IF_ERROR(MountImage(image, folder));
  return MountedDisk(folder, image);
}

MountedDisk::MountedDisk(MountedDisk&& other) noexcept
    : folder_(std::exchange(other.folder_, "")), image_(std::move(other.image_)) {}

MountedDisk::~MountedDisk() {
  if (!folder_.empty()) umount2(folder_.c_str(), MNT_DETACH);
}

void MountedDisk::Fill() const {
  const int out = open(BallastPath().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  DILOCO_CHECK(out >= 0);
  for (size_t piece = size_t{1} << 16; piece > 0; piece /= 2) {
    const std::string zeros(piece, '\0');
    while (write(out, zeros.data(), zeros.size()) > 0) {
    }
  }
  close(out);
}

void MountedDisk::Free() const { std::filesystem::remove(BallastPath()); }

absl::Status MountedDisk::BecomeReadOnly() const {
  const absl::StatusOr<Finished> device = RunProcess({"/usr/bin/findmnt", "-no", "SOURCE", folder_}, kPatience);
  DILOCO_RETURN_IF_ERROR(device.status());
  const std::string name = std::filesystem::path(std::string(absl::StripAsciiWhitespace(device->output))).filename();
  const std::string trigger = absl::StrCat("/sys/fs/ext4/", name, "/trigger_fs_error");
  const int out = open(trigger.c_str(), O_WRONLY | O_CLOEXEC);
  if (out < 0) return absl::UnavailableError(absl::StrCat("cannot open ", trigger, ": ", std::strerror(errno)));
  const bool written = write(out, "a test", 6) == 6;
  close(out);
  return written ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write to ", trigger));
}

absl::Status MountedDisk::MountAgain() {
  if (umount(folder_.c_str()) != 0) return absl::UnavailableError(absl::StrCat("umount: ", std::strerror(errno)));
  // As an operator would: what the journal of the file system holds is put in place, and the error is forgotten.
  const absl::StatusOr<Finished> checked = RunProcess({"/sbin/fsck.ext4", "-p", image_}, kPatience);
  DILOCO_RETURN_IF_ERROR(checked.status());
  if (checked->exit_code > 1) return absl::UnavailableError(absl::StrCat("fsck: ", checked->output));
  return MountImage(image_, folder_);
}

}  // namespace diloco::testing
