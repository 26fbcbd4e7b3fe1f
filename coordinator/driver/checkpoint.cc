#include "coordinator/driver/checkpoint.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "common/base/digest.h"
#include "common/base/status_macros.h"
#include "common/safetensors/safetensors_writer.h"
#include "coordinator/driver/checkpoint_format.h"

namespace diloco {
namespace {

constexpr char kFolderPrefix[] = "round-";
constexpr char kGenerationInfix[] = "-generation-";

// What a checkpoint's folder is named after.
struct Place {
  uint32_t generation = 0;
  int64_t version = 0;
};

std::string FolderName(Place place) {
  const std::string name = absl::StrFormat("%s%08d", kFolderPrefix, place.version);
  return place.generation == 0 ? name : absl::StrFormat("%s%s%d", name, kGenerationInfix, place.generation);
}

// nullopt: it is another entry.
std::optional<Place> PlaceOf(const std::string& name) {
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, kFolderPrefix)) return std::nullopt;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(rest, absl::MaxSplits(kGenerationInfix, 1));
  Place place;
  if (!absl::SimpleAtoi(parts.first, &place.version) ||
      (!parts.second.empty() && !absl::SimpleAtoi(parts.second, &place.generation)) || name != FolderName(place)) {
    return std::nullopt;
  }
  return place;
}

absl::StatusOr<SavedCheckpoint> Examine(FileSystem* files, const std::string& path, Place place) {
  DILOCO_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> model, files->OpenForRead(path + "/" + kModelFile));
  SavedCheckpoint saved{.path = path, .generation = place.generation, .version = place.version};
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
    const std::optional<Place> place = PlaceOf(name);
    if (!place) continue;
    absl::StatusOr<SavedCheckpoint> saved = Examine(files, folder + "/" + name, *place);
    if (saved.ok()) found.push_back(*std::move(saved));
  }
  std::sort(found.begin(), found.end(), [](const SavedCheckpoint& a, const SavedCheckpoint& b) {
    return std::tie(a.generation, a.version) > std::tie(b.generation, b.version);
  });
  return found;
}

absl::StatusOr<SavedCheckpoint> WriteCheckpoint(FileSystem* files, const std::string& folder,
                                                const ConsensusCheckpoint& content) {
  const Place place = {.generation = content.generation, .version = content.version};
  const std::string name = FolderName(place);
  const std::string saved = folder + "/" + name;
  if (absl::StatusOr<SavedCheckpoint> there = Examine(files, saved, place); there.ok()) return there;
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
  return Examine(files, saved, place);
}

}  // namespace diloco
