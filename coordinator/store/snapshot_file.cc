#include "coordinator/store/snapshot_file.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status_macros.h"
#include "coordinator/store/journal_format.h"
#include "coordinator/store/journal_reader.h"

namespace diloco {
namespace {

constexpr std::string_view kSnapshotMagic =
    "\x89"
    "DLSNAP\n";
constexpr size_t kPieceBytes = size_t{1} << 20;

struct SnapshotHeader {
  uint64_t sequence = 0;
  uint64_t record_bytes = 0;
  uint64_t raw_bytes = 0;
  Crc32c record_crc;

  uint64_t consensus_offset() const { return RoundUpToBlock(kBlockBytes + record_bytes); }
  uint64_t pieces() const { return (raw_bytes + kPieceBytes - 1) / kPieceBytes; }
  uint64_t file_bytes() const { return consensus_offset() + raw_bytes + (pieces() + 1) * sizeof(uint32_t); }
};

uint64_t RawBytes(const v1::SnapshotRecord& record) { return record.consensus_bytes() + record.residual_bytes(); }

std::string EncodeHeader(const SnapshotHeader& header) {
  std::string block(kBlockBytes, '\0');
  kSnapshotMagic.copy(block.data(), kSnapshotMagic.size());
  StoreU32(&block[12], kStoreFormatVersion);
  StoreU64(&block[16], header.sequence);
  StoreU64(&block[24], header.record_bytes);
  StoreU64(&block[32], header.raw_bytes);
  StoreU32(&block[40], kPieceBytes);
  StoreU32(&block[44], header.record_crc.value);
  StoreU32(&block[8], ComputeCrc32c(std::string_view(block).substr(12)).value);
  return block;
}

absl::StatusOr<SnapshotHeader> DecodeHeader(std::string_view block) {
  if (block.size() != kBlockBytes || !block.starts_with(kSnapshotMagic) ||
      LoadU32(&block[8]) != ComputeCrc32c(block.substr(12)).value) {
    return absl::DataLossError("not the header of a snapshot");
  }
  const uint32_t version = LoadU32(&block[12]);
  if (version != kStoreFormatVersion || LoadU32(&block[40]) != kPieceBytes) {
    return absl::FailedPreconditionError(
        absl::StrFormat("snapshot has format version %d, this program reads version %d", version, kStoreFormatVersion));
  }
  return SnapshotHeader{LoadU64(&block[16]), LoadU64(&block[24]), LoadU64(&block[32]), Crc32c{LoadU32(&block[44])}};
}

// Cuts the raw part, which comes as arrays of any size, into pieces.
class PieceWriter {
 public:
  explicit PieceWriter(WritableFile* file) : file_(file) { piece_.reserve(kPieceBytes); }

  absl::Status Add(std::string_view bytes) {
    while (!bytes.empty()) {
      const size_t count = std::min(bytes.size(), kPieceBytes - piece_.size());
      piece_.append(bytes.substr(0, count));
      bytes.remove_prefix(count);
      if (piece_.size() == kPieceBytes) DILOCO_RETURN_IF_ERROR(Flush());
    }
    return absl::OkStatus();
  }
  absl::Status Finish() {
    if (!piece_.empty()) DILOCO_RETURN_IF_ERROR(Flush());
    AddChecksum(ComputeCrc32c(checksums_));
    return file_->Append(checksums_);
  }

 private:
  absl::Status Flush() {
    AddChecksum(ComputeCrc32c(piece_));
    const absl::Status status = file_->Append(piece_);
    piece_.clear();
    return status;
  }
  void AddChecksum(Crc32c crc) {
    checksums_.resize(checksums_.size() + sizeof(uint32_t));
    StoreU32(&checksums_[checksums_.size() - sizeof(uint32_t)], crc.value);
  }

  WritableFile* const file_;
  std::string piece_;
  std::string checksums_;
};

// Reads exactly `out` bytes; the caller knows that the file has them.
absl::Status ReadExactly(const ReadableFile& file, const std::string& path, uint64_t offset, char* out, size_t count) {
  DILOCO_ASSIGN_OR_RETURN(const size_t read, file.ReadAt(offset, out, count));
  if (read != count) return DamagedFile(path, offset + read, "the file ends here");
  return absl::OkStatus();
}

absl::Status ReadRecord(const ReadableFile& file, const std::string& path, const SnapshotHeader& header,
                        v1::SnapshotRecord& record) {
  std::string bytes(static_cast<size_t>(header.consensus_offset() - kBlockBytes), '\0');
  DILOCO_RETURN_IF_ERROR(ReadExactly(file, path, kBlockBytes, bytes.data(), bytes.size()));
  const std::string_view serialised = std::string_view(bytes).substr(0, static_cast<size_t>(header.record_bytes));
  if (ComputeCrc32c(serialised) != header.record_crc ||
      !record.ParseFromArray(serialised.data(), static_cast<int>(serialised.size()))) {
    return DamagedFile(path, kBlockBytes, "the snapshot's record does not match its checksum");
  }
  if (const size_t at = bytes.find_first_not_of('\0', serialised.size()); at != std::string::npos) {
    return DamagedFile(path, kBlockBytes + at, "not the zeros behind the snapshot's record");
  }
  if (RawBytes(record) != header.raw_bytes) {
    return DamagedFile(path, kBlockBytes, "the snapshot's record and header differ in the size of the raw part");
  }
  return absl::OkStatus();
}

absl::Status ReadConsensus(const ReadableFile& file, const std::string& path, const SnapshotHeader& header,
                           std::vector<float>& consensus) {
  const uint64_t checksums_at = header.consensus_offset() + header.raw_bytes;
  std::string checksums(static_cast<size_t>(header.file_bytes() - checksums_at), '\0');
  DILOCO_RETURN_IF_ERROR(ReadExactly(file, path, checksums_at, checksums.data(), checksums.size()));
  const std::string_view of_pieces = std::string_view(checksums).substr(0, checksums.size() - sizeof(uint32_t));
  if (LoadU32(&checksums[of_pieces.size()]) != ComputeCrc32c(of_pieces).value) {
    return DamagedFile(path, checksums_at, "the checksums of the consensus do not match their own");
  }
  consensus.resize(static_cast<size_t>(header.raw_bytes / sizeof(float)));
  char* const raw = reinterpret_cast<char*>(consensus.data());
  for (uint64_t at = 0; at < header.raw_bytes; at += kPieceBytes) {
    const size_t count = static_cast<size_t>(std::min<uint64_t>(kPieceBytes, header.raw_bytes - at));
    DILOCO_RETURN_IF_ERROR(ReadExactly(file, path, header.consensus_offset() + at, raw + at, count));
    if (ComputeCrc32c({raw + at, count}).value != LoadU32(&of_pieces[at / kPieceBytes * sizeof(uint32_t)])) {
      return DamagedFile(path, header.consensus_offset() + at,
                         absl::StrFormat("%d bytes of the consensus do not match their checksum", count));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> WriteSnapshotFile(FileSystem* files, const std::string& path, uint64_t sequence,
                                           const v1::SnapshotRecord& record,
                                           absl::Span<const absl::Span<const float>> arrays) {
  size_t elements = 0;
  for (const absl::Span<const float> array : arrays) elements += array.size();
  DILOCO_CHECK(elements * sizeof(float) == RawBytes(record));

  const std::string serialised = record.SerializeAsString();
  const SnapshotHeader header{sequence, serialised.size(), RawBytes(record), ComputeCrc32c(serialised)};
  DILOCO_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files->Create(path));
  DILOCO_RETURN_IF_ERROR(file->Append(EncodeHeader(header)));
  DILOCO_RETURN_IF_ERROR(file->Append(serialised));
  DILOCO_RETURN_IF_ERROR(file->Append(std::string(header.consensus_offset() - kBlockBytes - serialised.size(), '\0')));
  PieceWriter pieces(file.get());
  for (const absl::Span<const float> array : arrays) {
    DILOCO_RETURN_IF_ERROR(pieces.Add({reinterpret_cast<const char*>(array.data()), array.size() * sizeof(float)}));
  }
  DILOCO_RETURN_IF_ERROR(pieces.Finish());
  DILOCO_RETURN_IF_ERROR(file->Sync());
  return header.consensus_offset();
}

absl::StatusOr<SnapshotContent> ReadSnapshotFile(FileSystem* files, const std::string& path, uint64_t sequence) {
  DILOCO_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files->OpenForRead(path));
  DILOCO_ASSIGN_OR_RETURN(const uint64_t file_bytes, file->Size());
  if (file_bytes < kBlockBytes) return DamagedFile(path, file_bytes, "the file ends within the snapshot's header");
  std::string block(kBlockBytes, '\0');
  DILOCO_RETURN_IF_ERROR(ReadExactly(*file, path, 0, block.data(), block.size()));
  const absl::StatusOr<SnapshotHeader> header = DecodeHeader(block);
  if (absl::IsDataLoss(header.status())) return DamagedFile(path, 0, std::string(header.status().message()));
  if (!header.ok()) {
    return absl::Status(header.status().code(), absl::StrFormat("\"%s\": %s", path, header.status().message()));
  }
  if (header->sequence != sequence) {
    return DamagedFile(path, 0, absl::StrFormat("it is the snapshot number %d", header->sequence));
  }
  if (header->file_bytes() != file_bytes || header->raw_bytes % sizeof(float) != 0) {
    return DamagedFile(path, file_bytes, absl::StrFormat("the file should have %d bytes", header->file_bytes()));
  }
  SnapshotContent content;
  content.consensus_offset = header->consensus_offset();
  DILOCO_RETURN_IF_ERROR(ReadRecord(*file, path, *header, content.record));
  DILOCO_RETURN_IF_ERROR(ReadConsensus(*file, path, *header, content.consensus));
  return content;
}

}  // namespace diloco
