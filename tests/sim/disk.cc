#include "tests/sim/disk.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "coordinator/store/journal_format.h"
#include "diloco/v1/worker.pb.h"
#include "tests/sim/heap.h"

namespace diloco::sim {
namespace {

absl::Status Died() { return absl::AbortedError("the process died"); }

// What kind of file a path names.
std::string KindOf(const std::string& path) {
  if (absl::StrContains(path, "/checkpoints")) return "checkpoint";
  const std::string temporary = absl::EndsWith(path, ".tmp") ? "new " : "";
  if (absl::StrContains(path, "/journal-")) return temporary + "journal";
  if (absl::StrContains(path, "/snapshot-")) return temporary + "snapshot";
  return "other";
}

// What an append to a journal makes durable when the sync behind it is done; `commit` is it, if any.
std::string AppendedKind(const std::optional<CommitBlock>& commit) {
  static constexpr const char* kNames[] = {"commit run", "commit member", "commit evaluation", "commit delta",
                                           "commit end"};
  return commit ? kNames[static_cast<size_t>(commit->kind) - 1] : "records";
}

}  // namespace

class Disk::File final : public WritableFile {
 public:
  File(Disk* disk, std::unique_ptr<WritableFile> file, std::string kind)
      : disk_(*disk), file_(std::move(file)), kind_(std::move(kind)) {}

  absl::Status Append(std::string_view bytes) override {
    const HeapScope disk(kHeapOfTest);
    const bool journal = absl::StrContains(kind_, "journal");
    std::optional<CommitBlock> commit;
    if (journal && bytes.size() == kBlockBytes) commit = DecodeCommitBlock(bytes);
    if (journal) appended_ = AppendedKind(commit);
    if (kind_ == "journal" && !disk_.dead_) Tell(commit, bytes);
    const std::string name = absl::StrCat("disk append ", kind_, journal ? " " : "", appended_);
    return disk_.Change(name, true, [&] { return file_->Append(bytes); });
  }
  absl::Status Sync() override {
    const HeapScope disk(kHeapOfTest);
    const std::string name = absl::StrCat("disk sync ", kind_, appended_.empty() ? "" : " ", appended_);
    const bool ignored = disk_.ignore_syncs_ && absl::StrContains(kind_, "journal");
    return disk_.Change(name, false, [&] { return ignored ? absl::OkStatus() : file_->Sync(); });
  }

 private:
  void Tell(const std::optional<CommitBlock>& commit, std::string_view bytes) {
    v1::SubscribeResponse message;
    if (commit && commit->kind == GroupKind::kEnd) {
      DILOCO_CHECK(message.mutable_end()->ParseFromString(commit->payload));
    } else if (commit && commit->kind == GroupKind::kGlobalDelta) {
      DILOCO_CHECK(message.ParseFromString(commit->payload));
    } else if (commit || BeginsLikeRecord(bytes) ||
               !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
               message.item_case() == v1::SubscribeResponse::ITEM_NOT_SET) {
      return;
    }
    if (disk_.on_append_) disk_.on_append_(message.SerializeAsString());
  }

  Disk& disk_;
  const std::unique_ptr<WritableFile> file_;
  const std::string kind_;
  std::string appended_;  // Last, to a journal.
};

bool Disk::Dies(const std::string& name, CrashSide side) {
  if (!points_.Pass(name, side)) return false;
  dead_ = true;
  if (on_death_) on_death_();
  return true;
}

absl::Status Disk::Change(const std::string& name, bool writes, const std::function<absl::Status()>& change) {
  if (dead_) return Died();
  if (++changes_ % 1024 == 0) files_.ForgetOperations();
  if (Dies(name, CrashSide::kBefore)) return Died();
  if (writes && Dies(name, CrashSide::kWithin)) {
    files_.FailAt(0, Died());
    static_cast<void>(change().ok());
    return Died();
  }
  if (writes && full_) {
    files_.FailAt(0, absl::ResourceExhaustedError("no space left on device"));
  } else if (error_chance_ > 0 && random_.Chance(error_chance_)) {
    files_.FailAt(0, absl::DataLossError("input/output error"));
  }
  const absl::Status status = change();
  if (Dies(name, CrashSide::kAfter)) return Died();
  return status;
}

void Disk::PowerCut(Unsynced unsynced) {
  files_.Crash(unsynced);
  dead_ = false;
}

void Disk::Kill() {
  files_.Kill();
  dead_ = false;
}

Disk::Copy Disk::CopyOf(const std::string& folder) {
  Copy copy;
  const absl::StatusOr<std::vector<std::string>> names = files_.List(folder);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (absl::StartsWith(name, "journal-") || absl::StartsWith(name, "snapshot-")) copy[path] = files_.Contents(path);
  }
  return copy;
}

void Disk::Replace(const std::string& folder, const Copy& copy) {
  for (const auto& [path, contents] : CopyOf(folder)) DILOCO_CHECK(files_.Remove(path).ok());
  DILOCO_CHECK(files_.SyncFolder(folder).ok());
  for (const auto& [path, contents] : copy) files_.SetContents(path, contents);
}

uint64_t Disk::Bytes(const std::string& prefix) {
  const std::string folder = prefix.substr(0, prefix.rfind('/'));
  const absl::StatusOr<std::vector<std::string>> names = files_.List(folder);
  uint64_t bytes = 0;
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (absl::StartsWith(path, prefix)) bytes += files_.Contents(path).size();
  }
  return bytes;
}

absl::StatusOr<std::unique_ptr<WritableFile>> Disk::Create(const std::string& path) {
  const HeapScope disk(kHeapOfTest);
  std::unique_ptr<WritableFile> file;
  DILOCO_RETURN_IF_ERROR(Change(absl::StrCat("disk create ", KindOf(path)), true, [&]() -> absl::Status {
    DILOCO_ASSIGN_OR_RETURN(file, files_.Create(path));
    return absl::OkStatus();
  }));
  return std::make_unique<File>(this, std::move(file), KindOf(path));
}

absl::StatusOr<std::unique_ptr<WritableFile>> Disk::OpenForAppend(const std::string& path) {
  const HeapScope disk(kHeapOfTest);
  if (dead_) return Died();
  DILOCO_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files_.OpenForAppend(path));
  return std::make_unique<File>(this, std::move(file), KindOf(path));
}

absl::StatusOr<std::unique_ptr<ReadableFile>> Disk::OpenForRead(const std::string& path) {
  const HeapScope disk(kHeapOfTest);
  if (dead_) return Died();
  return files_.OpenForRead(path);
}

absl::Status Disk::Truncate(const std::string& path, uint64_t size) {
  const HeapScope disk(kHeapOfTest);
  return Change(absl::StrCat("disk truncate ", KindOf(path)), false, [&] { return files_.Truncate(path, size); });
}
absl::Status Disk::Rename(const std::string& from, const std::string& to) {
  const HeapScope disk(kHeapOfTest);
  return Change(absl::StrCat("disk rename ", KindOf(to)), false, [&] { return files_.Rename(from, to); });
}
absl::Status Disk::Remove(const std::string& path) {
  const HeapScope disk(kHeapOfTest);
  return Change(absl::StrCat("disk remove ", KindOf(path)), false, [&] { return files_.Remove(path); });
}
absl::StatusOr<std::vector<std::string>> Disk::List(const std::string& folder) {
  if (dead_) return Died();
  return files_.List(folder);
}
absl::Status Disk::CreateFolder(const std::string& folder) {
  const HeapScope disk(kHeapOfTest);
  if (dead_) return Died();
  return files_.CreateFolder(folder);
}
absl::Status Disk::SyncFolder(const std::string& folder) {
  const HeapScope disk(kHeapOfTest);
  return Change(absl::StrCat("disk sync-folder ", KindOf(folder + "/")), false,
                [&] { return files_.SyncFolder(folder); });
}
absl::StatusOr<std::unique_ptr<FileLock>> Disk::Lock(const std::string& path, const std::string& holder) {
  const HeapScope disk(kHeapOfTest);
  if (dead_) return Died();
  return files_.Lock(path, holder);
}

}  // namespace diloco::sim
