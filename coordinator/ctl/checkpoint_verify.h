// Whether a checkpoint of the consensus is whole, without a coordinator.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace diloco {

struct CheckpointReport {
  std::string model_path;
  uint64_t size_bytes = 0;
  int64_t tensors = 0;
  int64_t parameters = 0;
  // As the file says; empty where it is another program's and does not.
  std::string run_id;
  std::string version;
  std::string data_digest;
  std::string config_path;  // Of the configuration beside it; empty: none.
};

// `path`: a checkpoint's folder, or a safetensors file. Reads all of it: header, sizes, every value (finite), the
// digest of all values and that of the configuration, where the file has them. Memory: one tensor.
// Errors: kInvalidArgument: there is no such thing; kDataLoss: damaged, with file and what is wrong.
absl::StatusOr<CheckpointReport> VerifyCheckpoint(const std::string& path);

// A line a field.
std::string CheckpointReportText(const CheckpointReport& report);
std::string CheckpointReportJson(const CheckpointReport& report);

}  // namespace diloco
