// The byte grammar of journal files, and pure functions from and to bytes. Integers are little-endian; a block is 4
// KiB, counted from the file's start.
//
//   journal  := header group*
//   header   := one block: magic[8] crc32c u32 | version u32 | sequence u64 | previous_sequence u64 |
//               previous_bytes u64 | zeros
//   group    := record* zeros-to-the-block's-end commit          what one Append... call of the store makes durable
//   record   := magic[4] payload_bytes u32 | payload_crc32c u32 | header_crc32c u32 | payload
//   commit   := one block: magic[8] crc32c u32 | kind u32 | sequence u64 | offset u64 | body_bytes u64 |
//               body_records u32 | body_crc32c u32 | payload_bytes u32 | 0 u32 | payload | zeros | end marker[8]
//
//   header_crc32c  covers the 12 bytes before it, so a length is trusted only when it is as written
//   crc32c         of a block covers everything behind it in the block
//   body_crc32c    covers the first 12 bytes of each record header of the group, one after the other: they hold the
//                  payloads' checksums. (Not header_crc32c: CRC of bytes and their own CRC is the same for all bytes.)
//   sequence       is the file's own and offset the block's own, so that a block in the wrong place is not taken
//   previous_*     name the journal before and its size when this one was begun, so that nothing is missing between
//                  them (both 0 in the first journal)
//
// What lies where:
//   kRun, kMember, kEvaluation, kEnd   the message is the commit's payload, or the only record when it is too large
//   kGlobalDelta                       a record for each chunk and for the settled list (serialised
//                                      v1::SubscribeResponse); the commit's payload is the one with the commit
//
// Example: a new journal, then a member (40 bytes serialised), then a global delta of two chunks (1,048,640 and 700
// bytes serialised) with a settled list of 150 and a commit of 200:
//       0  header
//    4096  commit  kind member, body 0 bytes in 0 records, payload 40
//    8192  record  1,048,640 bytes of payload behind 16 of header
// 1056848  record  700
// 1057564  record  150
// 1057730  zeros   to the block's end
// 1060864  commit  kind global delta, offset 1060864, body 1,049,538 bytes in 3 records, payload 200
// 1064960  end of the file
//
// Why a tear can be told from damage. A crash leaves each block of an append that was not synced as it was written or
// as zeros, and the file short or whole. The writer syncs the records before it writes the commit block, and syncs that
// before anything else. So
//   - a good commit block proves that all before it was durable: a bad byte there is damage and is refused;
//   - an unfinished group has no commit block, or, when it has a torn one, one that is short or zero to the file's end;
//     it was never acknowledged and is cut;
//   - anything else that carries the first or the last 8 bytes of a commit block is a commit that was durable and is
//     damaged now: refused. No change of one byte, nor of any within 4080 neighbours, hides both, unless it leaves
//     zeros at the very end.
// Commit blocks lie at block boundaries, so they are found behind records whose lengths can't be trusted; and no block
// that holds something committed is ever written again.
//
// What it costs, and what it can't tell:
//   - every group takes at least 4 KiB, and a global delta two syncs instead of one;
//   - where a device loses or zeroes the end of the very last commit after it reported the sync as done, or overwrites
//     the whole block with something else, that looks like a crash: the group is cut, with a warning;
//   - on a device that tears within 4 KiB, a torn commit block may look damaged: refused, for a person to decide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

#include "common/base/crc32c.h"

namespace diloco {

// Of journals and snapshots; no relation to the protocol's version.
inline constexpr uint32_t kStoreFormatVersion = 1;
inline constexpr size_t kBlockBytes = 4096;
inline constexpr size_t kRecordHeaderBytes = 16;
inline constexpr size_t kRecordDigestBytes = 12;  // Of the header: what body_crc32c covers.
inline constexpr size_t kMaxCommitPayloadBytes = kBlockBytes - 64;
inline constexpr size_t kMaxRecordBytes = size_t{1} << 30;

constexpr uint64_t RoundUpToBlock(uint64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes; }

enum class GroupKind : uint32_t { kRun = 1, kMember = 2, kEvaluation = 3, kGlobalDelta = 4, kEnd = 5 };

struct JournalHeader {
  uint64_t sequence = 0;
  uint64_t previous_sequence = 0;
  uint64_t previous_bytes = 0;
};
// One block. Errors: kDataLoss; kFailedPrecondition for another version.
std::string EncodeJournalHeader(const JournalHeader& header);
absl::StatusOr<JournalHeader> DecodeJournalHeader(std::string_view block);

struct RecordHeader {
  uint32_t payload_bytes = 0;
  Crc32c payload_crc;
};
// kRecordHeaderBytes for `payload`, of at most kMaxRecordBytes.
std::string EncodeRecordHeader(std::string_view payload);
// True when `bytes` begins like a record; nullopt when the header is short or not as written.
bool BeginsLikeRecord(std::string_view bytes);
std::optional<RecordHeader> DecodeRecordHeader(std::string_view bytes);

struct CommitBlock {
  GroupKind kind = GroupKind::kRun;
  uint64_t sequence = 0;
  uint64_t offset = 0;
  uint64_t body_bytes = 0;  // Records with their headers, without the zeros behind them.
  uint32_t body_records = 0;
  Crc32c body_crc;
  std::string payload;  // At most kMaxCommitPayloadBytes.
};
std::string EncodeCommitBlock(const CommitBlock& commit);
// nullopt when the block is not exactly as written.
std::optional<CommitBlock> DecodeCommitBlock(std::string_view block);
// True when a whole block carries the first or the last bytes of a commit block.
bool ResemblesCommitBlock(std::string_view block);

// Little-endian integers at a place that has room for them.
void StoreU32(char* at, uint32_t value);
void StoreU64(char* at, uint64_t value);
uint32_t LoadU32(const char* at);
uint64_t LoadU64(const char* at);

}  // namespace diloco
