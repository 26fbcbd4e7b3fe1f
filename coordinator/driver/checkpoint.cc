#include "coordinator/driver/checkpoint.h"

#include <map>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "common/safetensors/safetensors_writer.h"

namespace diloco {
namespace {

constexpr char kModelFile[] = "model.safetensors";
constexpr char kConfigFile[] = "run.yaml";
constexpr char kFolderPrefix[] = "round-";

std::string FolderName(int64_t version) { return absl::StrFormat("%s%08d", kFolderPrefix, version); }

absl::StatusOr<uint64_t> SizeOf(FileSystem* files, const std::string& path) {
  DILOCO_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files->OpenForRead(path));
  return file->Size();
}

absl::Status WriteModel(FileSystem* files, const std::string& path, const CheckpointContent& content) {
  const std::map<std::string, std::string> metadata = {
      {"run_id", content.run_id},
      {"version", absl::StrFormat("%d", content.version)},
      {"config_digest", content.config_digest},
  };
  DILOCO_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                          SafetensorsWriter::Create(files, path, content.layout->tensors(), metadata));
  for (const TensorPlacement& place : content.layout->placements()) {
    const auto fragment = static_cast<size_t>(place.fragment);
    const int64_t offset = place.offset - content.layout->fragments()[fragment].offset;
    DILOCO_RETURN_IF_ERROR(writer.Append(content.arrays->fragments[fragment].parameters().subspan(
        static_cast<size_t>(offset), static_cast<size_t>(place.count))));
  }
  return writer.Finish();
}

// Gives up the space of what is not whole; the folder is written into again.
void RemoveFiles(FileSystem* files, const std::string& folder) {
  for (const char* name : {kModelFile, kConfigFile}) static_cast<void>(files->Remove(folder + "/" + name).ok());
}

absl::Status WriteConfig(FileSystem* files, const std::string& path, const std::string& yaml) {
  DILOCO_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files->Create(path));
  DILOCO_RETURN_IF_ERROR(file->Append(yaml));
  return file->Sync();
}

}  // namespace

std::optional<SavedCheckpoint> FindNewestCheckpoint(FileSystem* files, const std::string& folder) {
  std::optional<SavedCheckpoint> newest;
  const absl::StatusOr<std::vector<std::string>> names = files->List(folder);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    int64_t version = 0;
    if (!absl::StartsWith(name, kFolderPrefix) || !absl::SimpleAtoi(name.substr(sizeof(kFolderPrefix) - 1), &version) ||
        name != FolderName(version) || (newest && version < newest->version)) {
      continue;
    }
    const std::string path = folder + "/" + name;
    if (const absl::StatusOr<uint64_t> size = SizeOf(files, path + "/" + kModelFile); size.ok()) {
      newest = {.path = path, .version = version, .size_bytes = *size};
    }
  }
  return newest;
}

absl::StatusOr<SavedCheckpoint> WriteCheckpoint(FileSystem* files, const std::string& folder,
                                                const CheckpointContent& content) {
  const std::string name = FolderName(content.version);
  SavedCheckpoint saved{.path = folder + "/" + name, .version = content.version};
  const std::string model = saved.path + "/" + kModelFile;
  if (const absl::StatusOr<uint64_t> size = SizeOf(files, model); size.ok()) {
    saved.size_bytes = *size;
    return saved;
  }
  const std::string aside = folder + "/." + name + ".partial";
  DILOCO_RETURN_IF_ERROR(files->CreateFolder(aside));
  const auto write = [&]() -> absl::Status {
    DILOCO_RETURN_IF_ERROR(WriteModel(files, aside + "/" + kModelFile, content));
    DILOCO_RETURN_IF_ERROR(WriteConfig(files, aside + "/" + kConfigFile, content.config_yaml));
    DILOCO_RETURN_IF_ERROR(files->SyncFolder(aside));
    return files->Rename(aside, saved.path);
  };
  if (const absl::Status status = write(); !status.ok()) {
    RemoveFiles(files, aside);
    return status;
  }
  DILOCO_RETURN_IF_ERROR(files->SyncFolder(folder));
  DILOCO_ASSIGN_OR_RETURN(saved.size_bytes, SizeOf(files, model));
  return saved;
}

}  // namespace diloco
