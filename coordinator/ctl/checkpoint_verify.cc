#include "coordinator/ctl/checkpoint_verify.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

#include "common/base/digest.h"
#include "common/base/status_macros.h"
#include "common/config/config_file.h"
#include "common/config/run_config.h"
#include "common/safetensors/safetensors_reader.h"
#include "coordinator/ctl/format.h"
#include "coordinator/ctl/table.h"
#include "coordinator/driver/checkpoint_format.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

absl::Status Damaged(const std::string& path, const std::string& what) {
  return absl::DataLossError(absl::StrFormat("%s: %s; the file is damaged, take another checkpoint", path, what));
}

std::string Metadata(const SafetensorsReader& model, const char* key) {
  const auto found = model.metadata().find(key);
  return found == model.metadata().end() ? "" : found->second;
}

// Reads every value. Errors: one that is not finite, a digest that is not the metadata's.
absl::Status VerifyValues(const SafetensorsReader& model, CheckpointReport& report) {
  DigestBuilder digest;
  bool is_float32 = true;
  for (const SafetensorsTensor& tensor : model.tensors()) {
    std::vector<float> values(static_cast<size_t>(tensor.elements));
    DILOCO_RETURN_IF_ERROR(model.Read({.name = tensor.name, .shape = tensor.shape}, absl::MakeSpan(values)));
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i])) continue;
      return Damaged(report.model_path, absl::StrFormat("value %d of tensor \"%s\" is not finite", i, tensor.name));
    }
    digest.Add(values);
    is_float32 = is_float32 && tensor.dtype == "F32";
    report.parameters += tensor.elements;
  }
  if (report.data_digest.empty() || !is_float32) {
    report.data_digest.clear();  // It is not of what was read.
    return absl::OkStatus();
  }
  const std::string found = digest.Finish().Hex();
  if (found == report.data_digest) return absl::OkStatus();
  return Damaged(report.model_path,
                 absl::StrFormat("its values have digest %s, its metadata says %s", found, report.data_digest));
}

// The configuration that lies beside the model, if there is one.
absl::Status VerifyConfig(const SafetensorsReader& model, CheckpointReport& report) {
  const std::filesystem::path path = std::filesystem::path(report.model_path).parent_path() / kConfigFile;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return absl::OkStatus();
  report.config_path = path.string();
  DILOCO_ASSIGN_OR_RETURN(const std::string yaml, ReadConfigFile(report.config_path));
  const absl::StatusOr<RunConfig> config = ParseRunConfig(yaml, report.config_path);
  if (!config.ok()) return absl::DataLossError(config.status().message());
  const std::string expected = Metadata(model, kConfigDigestKey);
  const std::string found = ConfigDigest(*config).Hex();
  if (expected.empty() || found == expected) return absl::OkStatus();
  return Damaged(report.config_path, absl::StrFormat("it has digest %s, %s says %s", found, kModelFile, expected));
}

}  // namespace

absl::StatusOr<CheckpointReport> VerifyCheckpoint(const std::string& path) {
  CheckpointReport report{.model_path = path};
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    report.model_path = (std::filesystem::path(path) / kModelFile).string();
  }
  if (!std::filesystem::exists(report.model_path, error)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("there is no %s; name a checkpoint's folder or a safetensors file", report.model_path));
  }
  const absl::StatusOr<SafetensorsReader> model = SafetensorsReader::Open(report.model_path);
  if (!model.ok()) return absl::DataLossError(model.status().message());
  report.size_bytes = std::filesystem::file_size(report.model_path, error);
  report.tensors = static_cast<int64_t>(model->tensors().size());
  report.run_id = Metadata(*model, kRunIdKey);
  report.version = Metadata(*model, kVersionKey);
  report.data_digest = Metadata(*model, kDataDigestKey);
  if (absl::Status status = VerifyValues(*model, report); !status.ok()) {
    // A tensor of another type than the reader's.
    return absl::IsInvalidArgument(status) ? absl::DataLossError(status.message()) : status;
  }
  DILOCO_RETURN_IF_ERROR(VerifyConfig(*model, report));
  return report;
}

std::string CheckpointReportText(const CheckpointReport& report) {
  return Fields({{"model", report.model_path},
                 {"run", report.run_id.empty() ? "-" : report.run_id},
                 {"version", report.version.empty() ? "-" : report.version},
                 {"size", HumanBytes(report.size_bytes)},
                 {"values", absl::StrFormat("%d in %d tensors, all finite", report.parameters, report.tensors)},
                 {"digest", report.data_digest.empty() ? "the file names none" : report.data_digest + ", as it says"},
                 {"configuration", report.config_path.empty() ? "-" : report.config_path},
                 {"verdict", Cell(Tone::kGood, "good")}});
}

std::string CheckpointReportJson(const CheckpointReport& report) {
  const auto text = [](const std::string& value) {
    return value.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(value);
  };
  return nlohmann::ordered_json{{"model", report.model_path},
                                {"run_id", text(report.run_id)},
                                {"version", text(report.version)},
                                {"size_bytes", report.size_bytes},
                                {"tensors", report.tensors},
                                {"parameters", report.parameters},
                                {"data_digest", text(report.data_digest)},
                                {"config", text(report.config_path)}}
             .dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace diloco
