// Reads the committed groups of one journal file, one after the other, and tells a torn tail from damage
// (journal_format.h says how and why).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/files/file_system.h"
#include "coordinator/store/journal_format.h"

namespace diloco {

// kDataLoss that names the file and the offset and says what to do.
absl::Status DamagedFile(const std::string& path, uint64_t offset, const std::string& why);

struct JournalGroup {
  GroupKind kind = GroupKind::kRun;
  uint64_t offset = 0;               // Where the group begins in the file.
  std::vector<std::string> records;  // Payloads of its records.
  std::string commit_payload;
};

class JournalReader {
 public:
  // Errors: kDataLoss when the header is damaged or another file's; kFailedPrecondition for another format version.
  static absl::StatusOr<std::unique_ptr<JournalReader>> Open(FileSystem* files, const std::string& path,
                                                             uint64_t sequence);

  // The next committed group; nullopt when none follows. Errors: kDataLoss, naming file and offset, when something
  // committed is damaged.
  absl::StatusOr<std::optional<JournalGroup>> Next();

  const JournalHeader& header() const { return header_; }
  // End of the last group that Next() returned. After nullopt, what lies between here and file_bytes() was never
  // committed.
  uint64_t committed_bytes() const { return committed_bytes_; }
  uint64_t file_bytes() const { return file_bytes_; }

 private:
  // Where reading a group stopped, and why.
  struct Fault {
    uint64_t offset = 0;
    std::string why;
  };

  JournalReader(std::unique_ptr<ReadableFile> file, std::string path, uint64_t file_bytes)
      : file_(std::move(file)), path_(std::move(path)), file_bytes_(file_bytes) {}

  // Up to `count` bytes, fewer at the end of the file.
  absl::StatusOr<std::string> Read(uint64_t offset, size_t count) const;
  // Both return false and fill `fault` when the bytes are not as written.
  absl::StatusOr<bool> ReadRecords(JournalGroup& group, std::string& digests, uint64_t& end, Fault& fault) const;
  absl::StatusOr<bool> ReadGroup(JournalGroup& group, uint64_t& end, Fault& fault) const;
  // OK when a crash can have left what lies behind the last good commit.
  absl::Status CheckTailIsTorn(const Fault& fault) const;

  const std::unique_ptr<ReadableFile> file_;
  const std::string path_;
  const uint64_t file_bytes_;
  JournalHeader header_;
  uint64_t committed_bytes_ = kBlockBytes;
};

}  // namespace diloco
