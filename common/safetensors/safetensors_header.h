// The safetensors file format: named tensors in one file that PyTorch and others open.
//
//   file   := size u64, header char * size, data
//   header := JSON, starting with `{`, padded with spaces (ours to a multiple of 8 bytes):
//             {"__metadata__": {name: string, ...},
//              name: {"dtype": "F32", "shape": [int, ...], "data_offsets": [begin, end]}, ...}
// Integers are little-endian; offsets count from the start of the data, which they cover without gap or overlap. An
// empty shape is a scalar; tensors without elements, files without tensors and empty metadata are legal.
// Source: https://github.com/huggingface/safetensors, README, "Format".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace diloco {

inline constexpr std::string_view kSafetensorsMetadataKey = "__metadata__";
// The reference implementation's own bound.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

struct SafetensorsTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  int64_t elements = 0;
  uint64_t begin = 0;  // Bytes, from the start of the data.
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  // Ascending in `begin`.
  std::map<std::string, std::string> metadata;
};

// Parses the JSON and checks it against the size of the data that follows. Pure.
// Errors, kInvalidArgument: anything that the format forbids, a repeated name or field, a field that it does not
// have, an unknown dtype.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, uint64_t data_bytes);

}  // namespace diloco
