// Appends groups to one journal file (journal_format.h). What a disk that is full or read-only did not take
// (DiskRefused, common/files) is cut off again before anything else is appended, so that the same group may be appended
// later. After any other error, that of a sync above all, the writer must not be used again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/files/file_system.h"
#include "coordinator/store/journal_format.h"

namespace diloco {

class JournalWriter {
 public:
  // A new file with its header, which is not synced yet.
  static absl::StatusOr<std::unique_ptr<JournalWriter>> Create(FileSystem* files, const std::string& path,
                                                               const JournalHeader& header);
  // Goes on behind `size` bytes, all of them committed.
  static absl::StatusOr<std::unique_ptr<JournalWriter>> Continue(FileSystem* files, const std::string& path,
                                                                 uint64_t sequence, uint64_t size);

  // kNow: the records are durable before the commit is written, and that before the call returns. kBySync: by Sync(),
  // for a file that nobody reads before that.
  enum class Durable { kNow, kBySync };
  absl::Status AppendGroup(GroupKind kind, absl::Span<const std::string_view> records, std::string_view commit_payload,
                           Durable durable);
  absl::Status Sync() { return file_->Sync(); }
  // Cuts off what a group that failed has left, if it has not been yet.
  absl::Status CutBack();

  uint64_t sequence() const { return sequence_; }
  // Bytes of whole groups.
  uint64_t size() const { return size_; }

 private:
  JournalWriter(FileSystem* files, std::string path, std::unique_ptr<WritableFile> file, uint64_t sequence,
                uint64_t size)
      : files_(files), path_(std::move(path)), file_(std::move(file)), sequence_(sequence), size_(size) {}

  absl::Status Write(GroupKind kind, absl::Span<const std::string_view> records, std::string_view commit_payload,
                     Durable durable);
  FileSystem* const files_;
  const std::string path_;
  const std::unique_ptr<WritableFile> file_;
  const uint64_t sequence_;
  uint64_t size_;        // A multiple of a block between groups.
  bool ragged_ = false;  // The file may be longer than size_.
};

}  // namespace diloco
