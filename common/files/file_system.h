// The file operations of what must survive a crash, behind one small interface, so that tests can lose, tear and fail
// writes.
// Paths are absolute or relative to the working directory. Implementations need not be thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace diloco {

// A file that is written from its end on. Closed, without a sync, by the destructor.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // All or an error; after an error the file may hold any part of `bytes`. Errors: DiskRefused, others.
  virtual absl::Status Append(std::string_view bytes) = 0;
  // The bytes are durable when this returns OK. After an error nothing may be assumed, and it is never tried again.
  // Errors: kDataLoss, whatever the cause.
  virtual absl::Status Sync() = 0;
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  // Reads up to `count` bytes from `offset` into `out`, fewer only at the end of the file; returns how many.
  virtual absl::StatusOr<size_t> ReadAt(uint64_t offset, char* out, size_t count) const = 0;
  virtual absl::StatusOr<uint64_t> Size() const = 0;
  // Since it was written last, by the system's clock, so only for people. Never negative.
  virtual absl::StatusOr<absl::Duration> Age() const = 0;
};

// Held until destroyed; the operating system gives it up when the process dies.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

// An error of a change that the disk did not take, being full (kResourceExhausted: no space, or over quota) or
// read-only (kPermissionDenied). Nothing that was durable is in doubt, and the same change may be tried again. Never of
// a sync.
bool DiskRefused(const absl::Status& status);
// For implementations: the error of a sync, made kDataLoss.
absl::Status SyncError(const absl::Status& status);

// Errors of what changes files: DiskRefused, others; kDataLoss where a sync failed.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Creates or replaces; or opens for appending, created when absent.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path) = 0;
  // Reads what is durable, as far as the operating system lets one. Errors: kNotFound.
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) = 0;
  // Cuts the file to `size` bytes and syncs it.
  virtual absl::Status Truncate(const std::string& path, uint64_t size) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;
  // Names of the entries of a folder, sorted, without the folder.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& folder) = 0;
  // With parents; durable. OK when it is there already.
  virtual absl::Status CreateFolder(const std::string& folder) = 0;
  // Makes creations, renames and removals in the folder durable.
  virtual absl::Status SyncFolder(const std::string& folder) = 0;
  // Bytes that this process may still write to the disk that has the folder.
  virtual absl::StatusOr<uint64_t> FreeBytes(const std::string& folder) = 0;
  // Takes the lock file, which is created when absent, and writes `holder` into it (at most 256 bytes are read back).
  // Errors: kFailedPrecondition when it is held; the message is the holder that the file names, or "another process".
  virtual absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path, const std::string& holder) = 0;
};

// A refusal of the disk that has `folder`, with the bytes that are free in its message; another status as it is.
absl::Status WithFreeBytes(FileSystem* files, const std::string& folder, const absl::Status& status);

// The operating system's files. Lives for ever.
FileSystem* PosixFileSystem();

}  // namespace diloco
