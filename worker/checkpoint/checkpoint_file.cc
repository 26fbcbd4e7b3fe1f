#include "worker/checkpoint/checkpoint_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "common/base/status_macros.h"

namespace diloco {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic =
    "\x89"
    "DLCKPT\n";
constexpr std::string_view kEndMark = "DLCKEND\n";
constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr size_t kCheckedFrom = 12;
constexpr size_t kHeaderBytes = 36;

template <typename Integer>
void Store(char* at, Integer value) {
  std::memcpy(at, &value, sizeof(value));
}
template <typename Integer>
Integer Load(const char* at) {
  Integer value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

struct Header {
  uint64_t record_bytes = 0;
  uint64_t body_bytes = 0;
  Crc32c record_crc;

  uint64_t pieces() const { return (body_bytes + kPieceBytes - 1) / kPieceBytes; }
  uint64_t file_bytes() const {
    return kHeaderBytes + record_bytes + body_bytes + pieces() * sizeof(uint32_t) + kEndMark.size();
  }
};

std::string EncodeHeader(const Header& header) {
  std::string bytes(kHeaderBytes, '\0');
  kMagic.copy(bytes.data(), kMagic.size());
  Store(&bytes[12], kCheckpointFormatVersion);
  Store(&bytes[16], header.record_bytes);
  Store(&bytes[24], header.body_bytes);
  Store(&bytes[32], header.record_crc.value);
  Store(&bytes[8], ComputeCrc32c(std::string_view(bytes).substr(kCheckedFrom)).value);
  return bytes;
}

absl::Status Damaged(const std::string& path, uint64_t offset, const std::string& why) {
  return absl::DataLossError(absl::StrFormat("checkpoint \"%s\" is damaged at byte %d: %s", path, offset, why));
}

// Cuts the sections into pieces.
class BodyWriter {
 public:
  explicit BodyWriter(WritableFile* file) : file_(file) { piece_.reserve(kPieceBytes); }

  absl::Status Add(std::string_view bytes) {
    while (!bytes.empty()) {
      const size_t count = std::min(bytes.size(), kPieceBytes - piece_.size());
      piece_.append(bytes.substr(0, count));
      bytes.remove_prefix(count);
      if (piece_.size() == kPieceBytes) DILOCO_RETURN_IF_ERROR(Flush());
    }
    return absl::OkStatus();
  }
  absl::Status Finish() { return piece_.empty() ? absl::OkStatus() : Flush(); }

 private:
  absl::Status Flush() {
    std::string crc(sizeof(uint32_t), '\0');
    Store(crc.data(), ComputeCrc32c(piece_).value);
    DILOCO_RETURN_IF_ERROR(file_->Append(crc));
    DILOCO_RETURN_IF_ERROR(file_->Append(piece_));
    piece_.clear();
    return absl::OkStatus();
  }

  WritableFile* const file_;
  std::string piece_;
};

// Reads a file from its start on.
class Reader {
 public:
  Reader(std::string path, std::unique_ptr<ReadableFile> file) : path_(std::move(path)), file_(std::move(file)) {}

  absl::Status Read(char* out, size_t count) {
    DILOCO_ASSIGN_OR_RETURN(const size_t read, file_->ReadAt(offset_, out, count));
    if (read != count) return Damaged(path_, offset_ + read, "the file ends here");
    offset_ += count;
    return absl::OkStatus();
  }

  absl::StatusOr<Header> ReadHeader() {
    std::string bytes(kHeaderBytes, '\0');
    DILOCO_RETURN_IF_ERROR(Read(bytes.data(), bytes.size()));
    if (!bytes.starts_with(kMagic) ||
        Load<uint32_t>(&bytes[8]) != ComputeCrc32c(std::string_view(bytes).substr(kCheckedFrom)).value) {
      return Damaged(path_, 0, "not the header of a checkpoint");
    }
    if (const auto version = Load<uint32_t>(&bytes[12]); version != kCheckpointFormatVersion) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "checkpoint \"%s\" has format version %d, this program reads version %d; use the release that wrote it",
          path_, version, kCheckpointFormatVersion));
    }
    const Header header{Load<uint64_t>(&bytes[16]), Load<uint64_t>(&bytes[24]), Crc32c{Load<uint32_t>(&bytes[32])}};
    DILOCO_ASSIGN_OR_RETURN(const uint64_t size, file_->Size());
    if (size != header.file_bytes()) {
      return Damaged(path_, std::min(size, header.file_bytes()),
                     absl::StrFormat("the file has %d bytes and should have %d", size, header.file_bytes()));
    }
    return header;
  }

  absl::StatusOr<v1::CheckpointRecord> ReadRecord(const Header& header) {
    std::string bytes(static_cast<size_t>(header.record_bytes), '\0');
    DILOCO_RETURN_IF_ERROR(Read(bytes.data(), bytes.size()));
    v1::CheckpointRecord record;
    if (ComputeCrc32c(bytes) != header.record_crc || !record.ParseFromString(bytes)) {
      return Damaged(path_, kHeaderBytes, "the record does not match its checksum");
    }
    uint64_t body_bytes = 0;
    for (const auto& section : record.sections()) body_bytes += section.bytes();
    if (body_bytes != header.body_bytes) {
      return Damaged(path_, kHeaderBytes,
                     absl::StrFormat("sections of %d bytes in a body of %d", body_bytes, header.body_bytes));
    }
    body_left_ = body_bytes;
    return record;
  }

  // The next bytes of the body, checked.
  absl::Status ReadBody(char* out, size_t count) {
    while (count > 0) {
      if (at_ == piece_.size()) DILOCO_RETURN_IF_ERROR(NextPiece());
      const size_t taken = std::min(count, piece_.size() - at_);
      std::memcpy(out, &piece_[at_], taken);
      at_ += taken;
      out += taken;
      count -= taken;
    }
    return absl::OkStatus();
  }

  absl::Status ReadEnd() {
    const uint64_t offset = offset_;
    std::string mark(kEndMark.size(), '\0');
    DILOCO_RETURN_IF_ERROR(Read(mark.data(), mark.size()));
    return mark == kEndMark ? absl::OkStatus() : Damaged(path_, offset, "not the end mark");
  }

 private:
  absl::Status NextPiece() {
    const uint64_t offset = offset_;
    char crc[sizeof(uint32_t)];
    DILOCO_RETURN_IF_ERROR(Read(crc, sizeof(crc)));
    piece_.resize(static_cast<size_t>(std::min<uint64_t>(kPieceBytes, body_left_)));
    DILOCO_RETURN_IF_ERROR(Read(piece_.data(), piece_.size()));
    if (ComputeCrc32c(piece_).value != Load<uint32_t>(crc)) {
      return Damaged(path_, offset, absl::StrFormat("%d bytes do not match their checksum", piece_.size()));
    }
    body_left_ -= piece_.size();
    at_ = 0;
    return absl::OkStatus();
  }

  const std::string path_;
  const std::unique_ptr<ReadableFile> file_;
  uint64_t offset_ = 0;
  uint64_t body_left_ = 0;  // Of the pieces that are not read.
  std::string piece_;
  size_t at_ = 0;
};

}  // namespace

absl::Status WriteCheckpointFile(FileSystem* files, const std::string& path, const CheckpointContent& content) {
  DILOCO_CHECK(content.record.sections_size() == static_cast<int>(content.sections.size()));
  const std::string record = content.record.SerializeAsString();
  Header header{.record_bytes = record.size(), .record_crc = ComputeCrc32c(record)};
  for (const std::string_view section : content.sections) header.body_bytes += section.size();
  DILOCO_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files->Create(path));
  DILOCO_RETURN_IF_ERROR(file->Append(EncodeHeader(header)));
  DILOCO_RETURN_IF_ERROR(file->Append(record));
  BodyWriter body(file.get());
  for (const std::string_view section : content.sections) DILOCO_RETURN_IF_ERROR(body.Add(section));
  DILOCO_RETURN_IF_ERROR(body.Finish());
  DILOCO_RETURN_IF_ERROR(file->Append(kEndMark));
  return file->Sync();
}

absl::StatusOr<LoadedCheckpoint> ReadCheckpointFile(FileSystem* files, const std::string& path) {
  DILOCO_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files->OpenForRead(path));
  Reader reader(path, std::move(file));
  DILOCO_ASSIGN_OR_RETURN(const Header header, reader.ReadHeader());
  LoadedCheckpoint loaded;
  DILOCO_ASSIGN_OR_RETURN(loaded.record, reader.ReadRecord(header));
  for (const auto& section : loaded.record.sections()) {
    const auto bytes = static_cast<size_t>(section.bytes());
    if (section.name().starts_with(kEncodedSection)) {
      std::string& encoded = loaded.bytes[section.name()];
      encoded.resize(bytes);
      DILOCO_RETURN_IF_ERROR(reader.ReadBody(encoded.data(), bytes));
    } else {
      std::vector<float>& array = loaded.arrays[section.name()];
      array.resize((bytes + sizeof(float) - 1) / sizeof(float));
      DILOCO_RETURN_IF_ERROR(reader.ReadBody(reinterpret_cast<char*>(array.data()), bytes));
    }
  }
  DILOCO_RETURN_IF_ERROR(reader.ReadEnd());
  return loaded;
}

}  // namespace diloco
