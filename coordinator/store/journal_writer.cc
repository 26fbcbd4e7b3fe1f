#include "coordinator/store/journal_writer.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace diloco {

absl::StatusOr<std::unique_ptr<JournalWriter>> JournalWriter::Create(FileSystem* files, const std::string& path,
                                                                     const JournalHeader& header) {
  DILOCO_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files->Create(path));
  DILOCO_RETURN_IF_ERROR(file->Append(EncodeJournalHeader(header)));
  return std::unique_ptr<JournalWriter>(new JournalWriter(files, path, std::move(file), header.sequence, kBlockBytes));
}

absl::StatusOr<std::unique_ptr<JournalWriter>> JournalWriter::Continue(FileSystem* files, const std::string& path,
                                                                       uint64_t sequence, uint64_t size) {
  DILOCO_CHECK(size >= kBlockBytes && size % kBlockBytes == 0);
  DILOCO_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files->OpenForAppend(path));
  return std::unique_ptr<JournalWriter>(new JournalWriter(files, path, std::move(file), sequence, size));
}

absl::Status JournalWriter::AppendGroup(GroupKind kind, absl::Span<const std::string_view> records,
                                        std::string_view commit_payload, Durable durable) {
  DILOCO_RETURN_IF_ERROR(CutBack());
  const absl::Status status = Write(kind, records, commit_payload, durable);
  if (!DiskRefused(status)) return status;
  ragged_ = true;
  // At once, for the space; when the disk refuses that too, before the next group.
  const absl::Status cut = CutBack();
  return cut.ok() || DiskRefused(cut) ? status : cut;
}

absl::Status JournalWriter::CutBack() {
  if (!ragged_) return absl::OkStatus();
  DILOCO_RETURN_IF_ERROR(files_->Truncate(path_, size_));
  ragged_ = false;
  return absl::OkStatus();
}

absl::Status JournalWriter::Write(GroupKind kind, absl::Span<const std::string_view> records,
                                  std::string_view commit_payload, Durable durable) {
  CommitBlock commit;
  commit.kind = kind;
  commit.sequence = sequence_;
  commit.payload = std::string(commit_payload);
  std::string digests;
  for (const std::string_view payload : records) {
    const std::string header = EncodeRecordHeader(payload);
    DILOCO_RETURN_IF_ERROR(file_->Append(header));
    DILOCO_RETURN_IF_ERROR(file_->Append(payload));
    commit.body_bytes += header.size() + payload.size();
    digests.append(header, 0, kRecordDigestBytes);
  }
  commit.body_records = static_cast<uint32_t>(records.size());
  commit.body_crc = ComputeCrc32c(digests);
  commit.offset = RoundUpToBlock(size_ + commit.body_bytes);
  if (!records.empty()) {
    DILOCO_RETURN_IF_ERROR(file_->Append(std::string(commit.offset - size_ - commit.body_bytes, '\0')));
    if (durable == Durable::kNow) DILOCO_RETURN_IF_ERROR(file_->Sync());
  }
  DILOCO_RETURN_IF_ERROR(file_->Append(EncodeCommitBlock(commit)));
  if (durable == Durable::kNow) DILOCO_RETURN_IF_ERROR(file_->Sync());
  size_ = commit.offset + kBlockBytes;
  return absl::OkStatus();
}

}  // namespace diloco
