#include "common/safetensors/safetensors_writer.h"

#include <bit>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/safetensors/safetensors_header.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

static_assert(std::endian::native == std::endian::little, "values are written in memory order");

absl::Status CheckTensors(absl::Span<const TensorSpec> tensors) {
  std::unordered_set<std::string_view> names;
  int64_t elements = 0;
  for (const TensorSpec& tensor : tensors) {
    const auto error = [&](std::string_view what) {
      return absl::InvalidArgumentError(absl::StrFormat("tensor \"%s\": %s", absl::CHexEscape(tensor.name), what));
    };
    if (tensor.name == kSafetensorsMetadataKey) return error("the format reserves this name");
    if (!IsValidUtf8(tensor.name)) return error("the name is not UTF-8");
    if (!names.insert(tensor.name).second) return error("the name is there twice");
    for (const int64_t extent : tensor.shape) {
      if (extent < 0) return error(absl::StrFormat("extent %d is negative", extent));
    }
    const int64_t count = tensor.ElementCount();
    if (count > kMaxElements || (elements += count) > kMaxElements) {
      return error(absl::StrFormat("more than %d elements", kMaxElements));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Header(absl::Span<const TensorSpec> tensors,
                                   const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  for (const auto& [key, value] : metadata) {
    if (!IsValidUtf8(key) || !IsValidUtf8(value)) {
      return absl::InvalidArgumentError(absl::StrFormat("metadata \"%s\": not UTF-8", absl::CHexEscape(key)));
    }
    header[std::string(kSafetensorsMetadataKey)][key] = value;
  }
  // An ordered object looks keys up in linear time, so tensors, whose names are known to differ, go in as pairs.
  auto& items = header.get_ref<nlohmann::ordered_json::object_t&>();
  uint64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    const uint64_t end = offset + sizeof(float) * static_cast<uint64_t>(tensor.ElementCount());
    items.push_back(
        {tensor.name,
         {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", std::vector<uint64_t>{offset, end}}}});
    offset = end;
  }
  std::string json = header.dump();
  json.append((8 - json.size() % 8) % 8, ' ');  // So that the data is aligned.
  if (json.size() > kMaxSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a header of %d bytes; at most %d", json.size(), kMaxSafetensorsHeaderBytes));
  }
  return json;
}

std::string TemporaryPath(const std::string& path) { return path + ".tmp"; }

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

}  // namespace

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(FileSystem* files, std::string path,
                                                            absl::Span<const TensorSpec> tensors,
                                                            const std::map<std::string, std::string>& metadata) {
  DILOCO_RETURN_IF_ERROR(CheckTensors(tensors));
  DILOCO_ASSIGN_OR_RETURN(const std::string header, Header(tensors, metadata));
  int64_t elements = 0;
  for (const TensorSpec& tensor : tensors) elements += tensor.ElementCount();
  DILOCO_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files->Create(TemporaryPath(path)));
  SafetensorsWriter writer(files, std::move(path), std::move(file), elements);
  const uint64_t size = header.size();
  DILOCO_RETURN_IF_ERROR(writer.file_->Append(std::string_view(reinterpret_cast<const char*>(&size), sizeof(size))));
  DILOCO_RETURN_IF_ERROR(writer.file_->Append(header));
  return writer;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_ == nullptr) return;
  file_.reset();
  static_cast<void>(files_->Remove(TemporaryPath(path_)).ok());  // The next writer of the path overwrites it.
}

absl::Status SafetensorsWriter::Append(absl::Span<const float> values) {
  if (static_cast<int64_t>(values.size()) > missing_) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d values more than the tensors have", static_cast<int64_t>(values.size()) - missing_));
  }
  missing_ -= static_cast<int64_t>(values.size());
  return file_->Append(std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
}

absl::Status SafetensorsWriter::Finish() {
  if (missing_ != 0) return absl::InvalidArgumentError(absl::StrFormat("%d values are missing", missing_));
  DILOCO_RETURN_IF_ERROR(file_->Sync());
  DILOCO_RETURN_IF_ERROR(files_->Rename(TemporaryPath(path_), path_));
  file_.reset();
  return files_->SyncFolder(FolderOf(path_));
}

}  // namespace diloco
