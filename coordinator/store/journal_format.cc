#include "coordinator/store/journal_format.h"

#include <bit>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"

namespace diloco {
namespace {

static_assert(std::endian::native == std::endian::little, "integers are stored in memory order");

// Bytes that text never holds, and an end marker whose last byte no flipped bit turns into zero.
constexpr std::string_view kJournalMagic =
    "\x89"
    "DLJRNL\n";
constexpr std::string_view kCommitMagic =
    "\x89"
    "DLCMIT\n";
constexpr std::string_view kCommitEndMarker = "\nDLEND\x8F\xA5";
constexpr std::string_view kRecordMagic =
    "\x89"
    "DLR";

// Places of the fields that journal_format.h lists.
constexpr size_t kCrcAt = 8;
constexpr size_t kCheckedFrom = 12;
constexpr size_t kCommitPayloadAt = 56;
constexpr size_t kCommitEndMarkerAt = kBlockBytes - kCommitEndMarker.size();
static_assert(kCommitPayloadAt + kMaxCommitPayloadBytes == kCommitEndMarkerAt);

void SealBlock(std::string& block) {
  StoreU32(&block[kCrcAt], ComputeCrc32c(std::string_view(block).substr(kCheckedFrom)).value);
}

bool IsSealedBlock(std::string_view block, std::string_view magic) {
  return block.size() == kBlockBytes && block.starts_with(magic) &&
         LoadU32(&block[kCrcAt]) == ComputeCrc32c(block.substr(kCheckedFrom)).value;
}

}  // namespace

void StoreU32(char* at, uint32_t value) { std::memcpy(at, &value, sizeof(value)); }
void StoreU64(char* at, uint64_t value) { std::memcpy(at, &value, sizeof(value)); }
uint32_t LoadU32(const char* at) {
  uint32_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}
uint64_t LoadU64(const char* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

std::string EncodeJournalHeader(const JournalHeader& header) {
  std::string block(kBlockBytes, '\0');
  kJournalMagic.copy(block.data(), kJournalMagic.size());
  StoreU32(&block[12], kStoreFormatVersion);
  StoreU64(&block[16], header.sequence);
  StoreU64(&block[24], header.previous_sequence);
  StoreU64(&block[32], header.previous_bytes);
  SealBlock(block);
  return block;
}

absl::StatusOr<JournalHeader> DecodeJournalHeader(std::string_view block) {
  if (!IsSealedBlock(block, kJournalMagic)) return absl::DataLossError("not the header of a journal");
  const uint32_t version = LoadU32(&block[12]);
  if (version != kStoreFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("journal has format version ", version, ", this program reads version ", kStoreFormatVersion));
  }
  return JournalHeader{LoadU64(&block[16]), LoadU64(&block[24]), LoadU64(&block[32])};
}

std::string EncodeRecordHeader(std::string_view payload) {
  DILOCO_CHECK(payload.size() <= kMaxRecordBytes);
  std::string header(kRecordHeaderBytes, '\0');
  kRecordMagic.copy(header.data(), kRecordMagic.size());
  StoreU32(&header[4], static_cast<uint32_t>(payload.size()));
  StoreU32(&header[8], ComputeCrc32c(payload).value);
  StoreU32(&header[12], ComputeCrc32c(std::string_view(header).substr(0, kRecordDigestBytes)).value);
  return header;
}

bool BeginsLikeRecord(std::string_view bytes) { return bytes.starts_with(kRecordMagic); }

std::optional<RecordHeader> DecodeRecordHeader(std::string_view bytes) {
  if (bytes.size() < kRecordHeaderBytes || !BeginsLikeRecord(bytes) ||
      LoadU32(&bytes[12]) != ComputeCrc32c(bytes.substr(0, kRecordDigestBytes)).value) {
    return std::nullopt;
  }
  return RecordHeader{LoadU32(&bytes[4]), Crc32c{LoadU32(&bytes[8])}};
}

std::string EncodeCommitBlock(const CommitBlock& commit) {
  DILOCO_CHECK(commit.payload.size() <= kMaxCommitPayloadBytes);
  std::string block(kBlockBytes, '\0');
  kCommitMagic.copy(block.data(), kCommitMagic.size());
  StoreU32(&block[12], static_cast<uint32_t>(commit.kind));
  StoreU64(&block[16], commit.sequence);
  StoreU64(&block[24], commit.offset);
  StoreU64(&block[32], commit.body_bytes);
  StoreU32(&block[40], commit.body_records);
  StoreU32(&block[44], commit.body_crc.value);
  StoreU32(&block[48], static_cast<uint32_t>(commit.payload.size()));
  commit.payload.copy(&block[kCommitPayloadAt], commit.payload.size());
  kCommitEndMarker.copy(&block[kCommitEndMarkerAt], kCommitEndMarker.size());
  SealBlock(block);
  return block;
}

std::optional<CommitBlock> DecodeCommitBlock(std::string_view block) {
  if (!IsSealedBlock(block, kCommitMagic)) return std::nullopt;
  const uint32_t payload_bytes = LoadU32(&block[48]);
  if (payload_bytes > kMaxCommitPayloadBytes) return std::nullopt;
  CommitBlock commit;
  commit.kind = static_cast<GroupKind>(LoadU32(&block[12]));
  commit.sequence = LoadU64(&block[16]);
  commit.offset = LoadU64(&block[24]);
  commit.body_bytes = LoadU64(&block[32]);
  commit.body_records = LoadU32(&block[40]);
  commit.body_crc = Crc32c{LoadU32(&block[44])};
  commit.payload = std::string(block.substr(kCommitPayloadAt, payload_bytes));
  return commit;
}

bool ResemblesCommitBlock(std::string_view block) {
  return block.size() == kBlockBytes && (block.starts_with(kCommitMagic) || block.ends_with(kCommitEndMarker));
}

}  // namespace diloco
