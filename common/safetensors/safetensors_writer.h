// Writes a safetensors file of float32 tensors, in one pass.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/base/atomic_file.h"
#include "common/layout/layout.h"

namespace diloco {

// The file appears under its name, durable and whole, when Finish() returns OK; before that, and if the writer goes
// away without it, whatever was there stays. Not thread-safe.
class SafetensorsWriter {
 public:
  // `tensors`: name and shape of each, in the order in which their values will come; at most kMaxTensors.
  // Errors: kInvalidArgument for a repeated, reserved (`__metadata__`) or non-UTF-8 name, metadata that is not UTF-8,
  // a shape that is negative or too large; those of the operating system.
  static absl::StatusOr<SafetensorsWriter> Create(std::string path, absl::Span<const TensorSpec> tensors,
                                                  const std::map<std::string, std::string>& metadata);

  // The next values, row-major; pieces need not end where tensors do.
  // Errors: those of the operating system; kInvalidArgument for more values than the shapes have.
  absl::Status Append(absl::Span<const float> values);

  // Errors: those of the operating system; kInvalidArgument when values are missing.
  absl::Status Finish();

 private:
  SafetensorsWriter(std::unique_ptr<AtomicFile> file, int64_t missing) : file_(std::move(file)), missing_(missing) {}

  std::unique_ptr<AtomicFile> file_;
  int64_t missing_;  // Elements still to come.
};

}  // namespace diloco
