#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "common/files/file_system.h"

namespace diloco {
namespace {

constexpr mode_t kFileMode = 0644;
constexpr mode_t kFolderMode = 0755;
constexpr size_t kMaxHolderBytes = 256;

absl::Status ErrnoError(const char* what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrFormat("cannot %s \"%s\"", what, path));
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  ~FileDescriptor() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

absl::StatusOr<FileDescriptor> OpenDescriptor(const std::string& path, int flags) {
  int descriptor;
  do {
    descriptor = open(path.c_str(), flags | O_CLOEXEC, kFileMode);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) return ErrnoError("open", path);
  return FileDescriptor(descriptor);
}

absl::Status WriteAll(int descriptor, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoError("write to", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(FileDescriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  absl::Status Append(std::string_view bytes) override { return WriteAll(file_.get(), bytes, path_); }
  absl::Status Sync() override {
    // Not again after EINTR either: what was lost by then is not known.
    if (fdatasync(file_.get()) != 0) return SyncError(ErrnoError("sync", path_));
    return absl::OkStatus();
  }

 private:
  const FileDescriptor file_;
  const std::string path_;
};

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(FileDescriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  absl::StatusOr<size_t> ReadAt(uint64_t offset, char* out, size_t count) const override {
    size_t done = 0;
    while (done < count) {
      const ssize_t read = pread(file_.get(), out + done, count - done, static_cast<off_t>(offset + done));
      if (read < 0 && errno == EINTR) continue;
      if (read < 0) return ErrnoError("read", path_);
      if (read == 0) break;
      done += static_cast<size_t>(read);
    }
    return done;
  }
  absl::StatusOr<uint64_t> Size() const override {
    struct stat status;
    if (fstat(file_.get(), &status) != 0) return ErrnoError("examine", path_);
    return static_cast<uint64_t>(status.st_size);
  }
  absl::StatusOr<absl::Duration> Age() const override {
    struct stat status;
    timespec now{};
    if (fstat(file_.get(), &status) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) {
      return ErrnoError("examine", path_);
    }
    return std::max(absl::ZeroDuration(), absl::TimeFromTimespec(now) - absl::TimeFromTimespec(status.st_mtim));
  }

 private:
  const FileDescriptor file_;
  const std::string path_;
};

class PosixFileLock final : public FileLock {
 public:
  explicit PosixFileLock(FileDescriptor file) : file_(std::move(file)) {}

 private:
  const FileDescriptor file_;
};

class PosixFiles final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    return OpenWritable(path, O_TRUNC);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path) override {
    return OpenWritable(path, 0);
  }
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override {
    DILOCO_ASSIGN_OR_RETURN(FileDescriptor file, OpenDescriptor(path, O_RDONLY));
    // After a sync that failed the cache may hold what the disk does not: read what the disk holds. Only advice, so its
    // result does not matter.
    posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    return std::make_unique<PosixReadableFile>(std::move(file), path);
  }

  absl::Status Truncate(const std::string& path, uint64_t size) override {
    DILOCO_ASSIGN_OR_RETURN(const FileDescriptor file, OpenDescriptor(path, O_WRONLY));
    if (ftruncate(file.get(), static_cast<off_t>(size)) != 0) return ErrnoError("cut", path);
    if (fsync(file.get()) != 0) return SyncError(ErrnoError("sync", path));
    return absl::OkStatus();
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) return ErrnoError("rename", from);
    return absl::OkStatus();
  }
  absl::Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) != 0) return ErrnoError("remove", path);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    DIR* const entries = opendir(folder.c_str());
    if (entries == nullptr) return ErrnoError("list", folder);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* const entry = readdir(entries)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    const absl::Status status = errno == 0 ? absl::OkStatus() : ErrnoError("list", folder);
    closedir(entries);
    DILOCO_RETURN_IF_ERROR(status);
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Status CreateFolder(const std::string& folder) override {
    std::filesystem::path path;
    for (const std::filesystem::path& part : std::filesystem::path(folder)) {
      const std::filesystem::path parent = path.empty() ? std::filesystem::path(".") : path;
      path /= part;
      if (mkdir(path.c_str(), kFolderMode) == 0) {
        DILOCO_RETURN_IF_ERROR(SyncFolder(parent.string()));
      } else if (errno != EEXIST) {
        return ErrnoError("create folder", path.string());
      }
    }
    struct stat status;
    if (stat(folder.c_str(), &status) != 0) return ErrnoError("examine", folder);
    if (!S_ISDIR(status.st_mode)) {
      errno = ENOTDIR;
      return ErrnoError("create folder", folder);
    }
    return absl::OkStatus();
  }
  absl::Status SyncFolder(const std::string& folder) override {
    DILOCO_ASSIGN_OR_RETURN(const FileDescriptor file, OpenDescriptor(folder, O_RDONLY | O_DIRECTORY));
    if (fsync(file.get()) != 0) return SyncError(ErrnoError("sync", folder));
    return absl::OkStatus();
  }
  absl::StatusOr<uint64_t> FreeBytes(const std::string& folder) override {
    struct statvfs status;
    if (statvfs(folder.c_str(), &status) != 0) return ErrnoError("examine", folder);
    return uint64_t{status.f_bavail} * status.f_frsize;
  }

  // flock, which the kernel gives up with the last descriptor of the process: no age, no clean-up by hand.
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path, const std::string& holder) override {
    DILOCO_ASSIGN_OR_RETURN(FileDescriptor file, OpenDescriptor(path, O_RDWR | O_CREAT));
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return ErrnoError("lock", path);
      std::string other(kMaxHolderBytes, '\0');
      const ssize_t read = pread(file.get(), other.data(), other.size(), 0);
      other.resize(read > 0 ? static_cast<size_t>(read) : 0);
      return absl::FailedPreconditionError(other.empty() ? "another process" : other);
    }
    // Written over, then cut: a lock file that is there already takes no space, of which there may be none.
    DILOCO_RETURN_IF_ERROR(WriteAll(file.get(), holder, path));
    if (ftruncate(file.get(), static_cast<off_t>(holder.size())) != 0) return ErrnoError("write to", path);
    return std::make_unique<PosixFileLock>(std::move(file));
  }

 private:
  static absl::StatusOr<std::unique_ptr<WritableFile>> OpenWritable(const std::string& path, int flags) {
    DILOCO_ASSIGN_OR_RETURN(FileDescriptor file, OpenDescriptor(path, O_WRONLY | O_CREAT | O_APPEND | flags));
    return std::make_unique<PosixWritableFile>(std::move(file), path);
  }
};

}  // namespace

bool DiskRefused(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsPermissionDenied(status);
}

absl::Status SyncError(const absl::Status& status) {
  return absl::DataLossError(absl::StrFormat("%s; what was written since the last sync may be lost", status.message()));
}

absl::Status WithFreeBytes(FileSystem* files, const std::string& folder, const absl::Status& status) {
  if (!DiskRefused(status)) return status;
  const absl::StatusOr<uint64_t> free = files->FreeBytes(folder);
  if (!free.ok()) return status;
  return absl::Status(status.code(), absl::StrFormat("%s (%d bytes free)", status.message(), *free));
}

FileSystem* PosixFileSystem() {
  static PosixFiles files;
  return &files;
}

}  // namespace diloco
