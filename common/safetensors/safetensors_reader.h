// Reads safetensors files, of float32, bfloat16 or float16, as float32.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/layout/layout.h"
#include "common/safetensors/safetensors_header.h"

namespace diloco {

// Checks the whole header at once; values are read when they are asked for, so memory holds the header and one tensor.
// Not thread-safe.
class SafetensorsReader {
 public:
  // Errors, kInvalidArgument, with the path: it cannot be opened, is not a regular file, or not a safetensors file (see
  // ParseSafetensorsHeader), among them one that is shorter or longer than its header says.
  static absl::StatusOr<SafetensorsReader> Open(std::string path);
  ~SafetensorsReader();
  SafetensorsReader(SafetensorsReader&& other) noexcept;
  SafetensorsReader& operator=(SafetensorsReader&&) = delete;

  const std::string& path() const { return path_; }
  // In the order of the file's data.
  absl::Span<const SafetensorsTensor> tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // Reads the tensor of that name and shape. Shapes: out [tensor.ElementCount()].
  // Errors, kInvalidArgument: there is no such tensor, it has another shape, or a dtype that is not F32, BF16 or F16;
  // kDataLoss: the file changed meanwhile.
  absl::Status Read(const TensorSpec& tensor, absl::Span<float> out) const;

 private:
  SafetensorsReader(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  absl::Status ReadHeader();
  absl::Status ReadBytes(uint64_t offset, char* out, size_t size) const;
  absl::Status ReadHalves(const SafetensorsTensor& tensor, float (*convert)(uint16_t), absl::Span<float> out) const;

  std::string path_;
  int fd_;
  uint64_t data_offset_ = 0;
  SafetensorsHeader header_;
  std::map<std::string, size_t, std::less<>> index_;
};

}  // namespace diloco
