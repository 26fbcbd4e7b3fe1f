// The file of one checkpoint.
//
//   magic "\x89DLCKPT\n" | u32 CRC of the 24 bytes that follow | u32 format version | u64 record bytes
//   | u64 body bytes | u32 CRC of the record
//   record: serialised v1.CheckpointRecord
//   body: the record's sections one after the other, in pieces of 1 MiB (the last one shorter), each after its u32 CRC
//   end mark "DLCKEND\n"
//
// Integers are little-endian, CRCs CRC32C. A file is good only if each of its bytes is as written and none is missing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/files/file_system.h"
#include "diloco/v1/checkpoint.pb.h"

namespace diloco {

inline constexpr uint32_t kCheckpointFormatVersion = 1;

// What goes into a file.
struct CheckpointContent {
  v1::CheckpointRecord record;             // With its sections filled in.
  std::vector<std::string_view> sections;  // Their bytes, in that order.
};

// What came out of one. A section of encoded bytes is in `bytes`, every other in `arrays`, by name.
struct LoadedCheckpoint {
  v1::CheckpointRecord record;
  std::map<std::string, std::vector<float>> arrays;
  std::map<std::string, std::string> bytes;
};

// Names of sections of encoded bytes begin with this.
inline constexpr std::string_view kEncodedSection = "contribution/";

// Writes and syncs the file. Errors: the file system's.
absl::Status WriteCheckpointFile(FileSystem* files, const std::string& path, const CheckpointContent& content);

// Reads and checks the whole file. Errors: kDataLoss with file and offset; kFailedPrecondition, another format version;
// the file system's.
absl::StatusOr<LoadedCheckpoint> ReadCheckpointFile(FileSystem* files, const std::string& path);

}  // namespace diloco
