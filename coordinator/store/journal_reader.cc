#include "coordinator/store/journal_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"

namespace diloco {
namespace {

// Read at once when a tail is searched.
constexpr size_t kTailReadBytes = size_t{1} << 20;

bool AllZero(std::string_view bytes) { return bytes.find_first_not_of('\0') == std::string_view::npos; }

}  // namespace

absl::Status DamagedFile(const std::string& path, uint64_t offset, const std::string& why) {
  return absl::DataLossError(
      absl::StrFormat("\"%s\" is damaged at offset %d: %s; restore the file from a copy", path, offset, why));
}

absl::StatusOr<std::unique_ptr<JournalReader>> JournalReader::Open(FileSystem* files, const std::string& path,
                                                                   uint64_t sequence) {
  DILOCO_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files->OpenForRead(path));
  DILOCO_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  std::unique_ptr<JournalReader> reader(new JournalReader(std::move(file), path, size));
  DILOCO_ASSIGN_OR_RETURN(const std::string block, reader->Read(0, kBlockBytes));
  const absl::StatusOr<JournalHeader> found = DecodeJournalHeader(block);
  if (absl::IsDataLoss(found.status())) return DamagedFile(path, 0, std::string(found.status().message()));
  if (!found.ok())
    return absl::Status(found.status().code(), absl::StrFormat("\"%s\": %s", path, found.status().message()));
  if (found->sequence != sequence) {
    return DamagedFile(path, 0, absl::StrFormat("it is the journal number %d", found->sequence));
  }
  reader->header_ = *found;
  return reader;
}

absl::StatusOr<std::string> JournalReader::Read(uint64_t offset, size_t count) const {
  if (offset >= file_bytes_) return std::string();
  std::string bytes(static_cast<size_t>(std::min<uint64_t>(count, file_bytes_ - offset)), '\0');
  DILOCO_ASSIGN_OR_RETURN(const size_t read, file_->ReadAt(offset, bytes.data(), bytes.size()));
  bytes.resize(read);
  return bytes;
}

absl::StatusOr<bool> JournalReader::ReadRecords(JournalGroup& group, std::string& digests, uint64_t& end,
                                                Fault& fault) const {
  end = committed_bytes_;
  while (true) {
    DILOCO_ASSIGN_OR_RETURN(const std::string bytes, Read(end, kRecordHeaderBytes));
    if (!BeginsLikeRecord(bytes)) return true;
    const std::optional<RecordHeader> header = DecodeRecordHeader(bytes);
    if (!header) {
      fault = {end, "the header of a record does not match its checksum"};
      return false;
    }
    if (header->payload_bytes > file_bytes_ - end - kRecordHeaderBytes) {
      fault = {end, "a record runs past the end of the file"};
      return false;
    }
    DILOCO_ASSIGN_OR_RETURN(std::string payload, Read(end + kRecordHeaderBytes, header->payload_bytes));
    if (ComputeCrc32c(payload) != header->payload_crc) {
      fault = {end, "a record does not match its checksum"};
      return false;
    }
    end += kRecordHeaderBytes + payload.size();
    digests.append(bytes, 0, kRecordDigestBytes);
    group.records.push_back(std::move(payload));
  }
}

absl::StatusOr<bool> JournalReader::ReadGroup(JournalGroup& group, uint64_t& end, Fault& fault) const {
  std::string digests;
  uint64_t records_end = 0;
  DILOCO_ASSIGN_OR_RETURN(const bool records_good, ReadRecords(group, digests, records_end, fault));
  if (!records_good) return false;

  const uint64_t commit_at = RoundUpToBlock(records_end);
  const size_t padding = static_cast<size_t>(commit_at - records_end);
  DILOCO_ASSIGN_OR_RETURN(const std::string bytes, Read(records_end, padding + kBlockBytes));
  const std::string_view view = bytes;
  if (!AllZero(view.substr(0, padding))) {
    fault = {records_end, "neither a record nor the zeros before a commit record"};
    return false;
  }
  std::optional<CommitBlock> commit;
  if (view.size() > padding) commit = DecodeCommitBlock(view.substr(padding));
  if (!commit) {
    fault = {commit_at, "no commit record that matches its checksum"};
    return false;
  }
  if (commit->sequence != header_.sequence || commit->offset != commit_at ||
      commit->body_bytes != records_end - committed_bytes_ || commit->body_records != group.records.size() ||
      commit->body_crc != ComputeCrc32c(digests)) {
    fault = {commit_at, "the commit record does not fit the records before it"};
    return false;
  }
  group.kind = commit->kind;
  group.offset = committed_bytes_;
  group.commit_payload = std::move(commit->payload);
  end = commit_at + kBlockBytes;
  return true;
}

absl::StatusOr<std::optional<JournalGroup>> JournalReader::Next() {
  if (committed_bytes_ == file_bytes_) return std::nullopt;
  JournalGroup group;
  Fault fault;
  uint64_t end = 0;
  DILOCO_ASSIGN_OR_RETURN(const bool good, ReadGroup(group, end, fault));
  if (!good) {
    DILOCO_RETURN_IF_ERROR(CheckTailIsTorn(fault));
    return std::nullopt;
  }
  committed_bytes_ = end;
  return group;
}

absl::Status JournalReader::CheckTailIsTorn(const Fault& fault) const {
  const absl::Status damaged = DamagedFile(path_, fault.offset, fault.why);
  bool torn_commit_seen = false;  // Only zeros may follow it.
  for (uint64_t from = committed_bytes_; from < file_bytes_; from += kTailReadBytes) {
    DILOCO_ASSIGN_OR_RETURN(const std::string bytes, Read(from, kTailReadBytes));
    for (size_t at = 0; at < bytes.size(); at += kBlockBytes) {
      const std::string_view block = std::string_view(bytes).substr(at, kBlockBytes);
      if (torn_commit_seen && !AllZero(block)) return damaged;
      if (!ResemblesCommitBlock(block)) continue;
      if (block.back() != '\0') return damaged;
      torn_commit_seen = true;
    }
  }
  return absl::OkStatus();
}

}  // namespace diloco
