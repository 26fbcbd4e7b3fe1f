// One snapshot: a v1::SnapshotRecord and its raw part. Written once, never changed. Integers are little-endian.
//
//   snapshot := header record zeros-to-the-block's-end raw checksums
//   header   := one block of 4 KiB: magic[8] crc32c u32 | version u32 | sequence u64 | record_bytes u64 |
//               raw_bytes u64 | piece_bytes u32 | record_crc32c u32 | zeros
//   checksums := CRC32C u32 of each piece of the raw part | CRC32C u32 of those
//
// The header's crc32c covers everything behind it in the block. The raw part is float32, in pieces of piece_bytes
// (the last one shorter), so that damage has an offset. The size of the file follows from the header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/files/file_system.h"
#include "diloco/v1/journal.pb.h"

namespace diloco {

// Writes and syncs the file at `path`, which nobody reads yet. `arrays` hold record.consensus_bytes() +
// record.residual_bytes() in all.
// Returns the offset of the raw part.
absl::StatusOr<uint64_t> WriteSnapshotFile(FileSystem* files, const std::string& path, uint64_t sequence,
                                           const v1::SnapshotRecord& record,
                                           absl::Span<const absl::Span<const float>> arrays);

struct SnapshotContent {
  v1::SnapshotRecord record;
  uint64_t consensus_offset = 0;  // Of the raw part in the file.
  std::vector<float> consensus;
};

// Reads and checks the whole file. Errors: kDataLoss with file and offset; kFailedPrecondition for another version.
absl::StatusOr<SnapshotContent> ReadSnapshotFile(FileSystem* files, const std::string& path, uint64_t sequence);

}  // namespace diloco
