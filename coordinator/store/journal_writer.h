// Appends groups to one journal file (journal_format.h). After an error the writer must not be used again.
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

  uint64_t sequence() const { return sequence_; }
  // Bytes written, all of them committed.
  uint64_t size() const { return size_; }

 private:
  JournalWriter(std::unique_ptr<WritableFile> file, uint64_t sequence, uint64_t size)
      : file_(std::move(file)), sequence_(sequence), size_(size) {}

  const std::unique_ptr<WritableFile> file_;
  const uint64_t sequence_;
  uint64_t size_;  // A multiple of a block between groups.
};

}  // namespace diloco
