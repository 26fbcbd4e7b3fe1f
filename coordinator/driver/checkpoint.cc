#include "coordinator/driver/checkpoint.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

#include "common/base/digest.h"
#include "common/base/status_macros.h"
#include "common/safetensors/safetensors_writer.h"
#include "coordinator/driver/checkpoint_format.h"

namespace diloco {
namespace {

constexpr char kFolderPrefix[] = "round-";

std::string FolderName(int64_t version) { return absl::StrFormat("%s%08d", kFolderPrefix, version); }

// The version that a checkpoint's folder is named after; nullopt: it is another entry.
std::optional<int64_t> VersionOf(const std::string& name) {
  int64_t version = 0;
  if (!absl::StartsWith(name, kFolderPrefix) || !absl::SimpleAtoi(name.substr(sizeof(kFolderPrefix) - 1), &version) ||
      name != FolderName(version)) {
    return std::nullopt;
  }
  return version;
}

absl::StatusOr<SavedCheckpoint> Examine(FileSystem* files, const std::string& path, int64_t version) {
  DILOCO_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> model, files->OpenForRead(path + "/" + kModelFile));
  SavedCheckpoint saved{.path = path, .version = version};
  DILOCO_ASSIGN_OR_RETURN(saved.size_bytes, model->Size());
  DILOCO_ASSIGN_OR_RETURN(saved.age, model->Age());
  return saved;
}

absl::Span<const float> ValuesOf(const ConsensusCheckpoint& content, const TensorPlacement& place) {
  const auto fragment = static_cast<size_t>(place.fragment);
  const int64_t offset = place.offset - content.layout->fragments()[fragment].offset;
  return content.arrays->fragments[fragment].parameters().subspan(static_cast<size_t>(offset),
                                                                  static_cast<size_t>(place.count));
}

absl::Status WriteModel(FileSystem* files, const std::string& path, const ConsensusCheckpoint& content) {
  DigestBuilder digest;  // It stands before the values: a pass of its own, at the speed of memory.
  for (const TensorPlacement& place : content.layout->placements()) digest.Add(ValuesOf(content, place));
  const std::map<std::string, std::string> metadata = {
      {kRunIdKey, content.run_id},
      {kVersionKey, absl::StrFormat("%d", content.version)},
      {kConfigDigestKey, content.config_digest},
      {kDataDigestKey, digest.Finish().Hex()},
  };
  DILOCO_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                          SafetensorsWriter::Create(files, path, content.layout->tensors(), metadata));
  for (const TensorPlacement& place : content.layout->placements()) {
    DILOCO_RETURN_IF_ERROR(writer.Append(ValuesOf(content, place)));
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

std::vector<SavedCheckpoint> FindCheckpoints(FileSystem* files, const std::string& folder) {
  std::vector<SavedCheckpoint> found;
  const absl::StatusOr<std::vector<std::string>> names = files->List(folder);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const std::optional<int64_t> version = VersionOf(name);
    if (!version) continue;
    absl::StatusOr<SavedCheckpoint> saved = Examine(files, folder + "/" + name, *version);
    if (saved.ok()) found.push_back(*std::move(saved));
  }
  std::sort(found.begin(), found.end(),
            [](const SavedCheckpoint& a, const SavedCheckpoint& b) { return a.version > b.version; });
  return found;
}

absl::StatusOr<SavedCheckpoint> WriteCheckpoint(FileSystem* files, const std::string& folder,
                                                const ConsensusCheckpoint& content) {
  const std::string name = FolderName(content.version);
  const std::string saved = folder + "/" + name;
  if (absl::StatusOr<SavedCheckpoint> there = Examine(files, saved, content.version); there.ok()) return there;
  const std::string aside = folder + "/." + name + ".partial";
  DILOCO_RETURN_IF_ERROR(files->CreateFolder(aside));
  const auto write = [&]() -> absl::Status {
    DILOCO_RETURN_IF_ERROR(WriteModel(files, aside + "/" + kModelFile, content));
    DILOCO_RETURN_IF_ERROR(WriteConfig(files, aside + "/" + kConfigFile, content.config_yaml));
    DILOCO_RETURN_IF_ERROR(files->SyncFolder(aside));
    return files->Rename(aside, saved);
  };
  if (const absl::Status status = write(); !status.ok()) {
    RemoveFiles(files, aside);
    return status;
  }
  DILOCO_RETURN_IF_ERROR(files->SyncFolder(folder));
  return Examine(files, saved, content.version);
}

}  // namespace diloco
