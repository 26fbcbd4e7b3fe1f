// Writes a safetensors file of float32 tensors, in one pass.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/files/file_system.h"
#include "common/layout/layout.h"

namespace diloco {

// The file appears under its name, durable and whole, when Finish() returns OK; before that, and if the writer goes
// away without it, whatever was there stays. (Bytes go to `path` + ".tmp" until then.) Not thread-safe.
class SafetensorsWriter {
 public:
  // `tensors`: name and shape of each, in the order in which their values will come; at most kMaxTensors. `files`
  // outlives the object.
  // Errors: kInvalidArgument for a repeated, reserved (`__metadata__`) or non-UTF-8 name, metadata that is not UTF-8,
  // a shape that is negative or too large; those of the file system.
  static absl::StatusOr<SafetensorsWriter> Create(FileSystem* files, std::string path,
                                                  absl::Span<const TensorSpec> tensors,
                                                  const std::map<std::string, std::string>& metadata);
  SafetensorsWriter(SafetensorsWriter&&) = default;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  ~SafetensorsWriter();

  // The next values, row-major; pieces need not end where tensors do.
  // Errors: those of the file system; kInvalidArgument for more values than the shapes have.
  absl::Status Append(absl::Span<const float> values);

  // Nothing may follow. Errors: those of the file system; kInvalidArgument when values are missing.
  absl::Status Finish();

 private:
  SafetensorsWriter(FileSystem* files, std::string path, std::unique_ptr<WritableFile> file, int64_t missing)
      : files_(files), path_(std::move(path)), file_(std::move(file)), missing_(missing) {}

  FileSystem* files_;
  std::string path_;
  std::unique_ptr<WritableFile> file_;  // nullptr: moved from, or finished.
  int64_t missing_;                     // Elements still to come.
};

}  // namespace diloco
