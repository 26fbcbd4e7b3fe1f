// A file that appears whole or not at all, whatever fails or crashes in between.
//
// Bytes go to `path` + ".tmp", which Commit() makes durable and renames. A leftover of a crash is overwritten by the
// next writer of the same path; two writers of one path at a time are the caller's to prevent. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace diloco {

class AtomicFile {
 public:
  // Who may read it; only its owner may write.
  enum class Access { kAll, kOwner };

  // Errors here and below: those of the operating system, with the path.
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(std::string path, Access access = Access::kAll);
  // Removes the temporary file unless Commit() succeeded.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  absl::Status Write(std::string_view bytes);

  // Syncs the file, puts it in the place of whatever `path` was, and syncs the folder. Nothing may follow.
  absl::Status Commit();

 private:
  AtomicFile(std::string path, int fd);

  const std::string path_;
  const std::string temporary_;
  int fd_;
  bool renamed_ = false;
};

}  // namespace diloco
