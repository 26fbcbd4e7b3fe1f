#include "tests/coordinator/store/fault_file_system.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace diloco {
namespace {

constexpr size_t kBlock = 4096;

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

absl::Status NoSuchFile(const std::string& path) {
  return absl::NotFoundError(absl::StrFormat("no file \"%s\"", path));
}

}  // namespace

class FaultFileSystem::Writer final : public WritableFile {
 public:
  Writer(FaultFileSystem* files, std::shared_ptr<File> file, std::string path)
      : files_(files), process_(files->process_), file_(std::move(file)), path_(std::move(path)) {}
  absl::Status Append(std::string_view bytes) override {
    DILOCO_CHECK(process_ == files_->process_);
    return files_->AppendTo(*file_, path_, bytes);
  }
  absl::Status Sync() override {
    DILOCO_CHECK(process_ == files_->process_);
    return files_->SyncFile(*file_, path_);
  }

 private:
  FaultFileSystem* const files_;
  const uint64_t process_;
  const std::shared_ptr<File> file_;
  const std::string path_;
};

class FaultFileSystem::Reader final : public ReadableFile {
 public:
  explicit Reader(std::shared_ptr<const File> file) : file_(std::move(file)) {}
  absl::StatusOr<size_t> ReadAt(uint64_t offset, char* out, size_t count) const override {
    if (offset >= file_->bytes.size()) return size_t{0};
    return file_->bytes.copy(out, count, static_cast<size_t>(offset));
  }
  absl::StatusOr<uint64_t> Size() const override { return uint64_t{file_->bytes.size()}; }
  absl::StatusOr<absl::Duration> Age() const override { return absl::ZeroDuration(); }

 private:
  const std::shared_ptr<const File> file_;
};

class FaultFileSystem::HeldLock final : public FileLock {
 public:
  HeldLock(FaultFileSystem* files, std::string path)
      : files_(files), process_(files->process_), path_(std::move(path)) {}
  ~HeldLock() override {
    if (process_ == files_->process_) files_->locks_.erase(path_);
  }

 private:
  FaultFileSystem* const files_;
  const uint64_t process_;
  const std::string path_;
};

void FaultFileSystem::FailAt(int nth, absl::Status status, bool for_good) {
  fault_ = Fault{nth, std::move(status), "", for_good};
}
void FaultFileSystem::FailOn(const std::string& prefix, int nth, absl::Status status) {
  fault_ = Fault{nth, std::move(status), prefix, false};
}

absl::Status FaultFileSystem::Change(const std::string& operation) {
  ++changes_;
  operations_.push_back(operation);
  if (!fault_ || !operation.starts_with(fault_->prefix) || fault_->left-- > 0) return absl::OkStatus();
  const absl::Status status = fault_->status;
  if (fault_->for_good) {
    fault_->left = 0;
  } else {
    fault_.reset();
  }
  return status;
}

absl::Status FaultFileSystem::AppendTo(File& file, const std::string& path, std::string_view bytes) {
  const absl::Status status = Change(absl::StrFormat("append %s %d", path, bytes.size()));
  file.bytes.append(status.ok() ? bytes : bytes.substr(0, Random(bytes.size())));
  return status;
}

absl::Status FaultFileSystem::SyncFile(File& file, const std::string& path) {
  if (const absl::Status status = Change(absl::StrFormat("sync %s", path)); !status.ok()) return SyncError(status);
  file.durable = file.bytes.size();
  return absl::OkStatus();
}

void FaultFileSystem::ChangeNames(const std::string& folder,
                                  std::vector<std::pair<std::string, std::shared_ptr<File>>> entries) {
  for (const auto& [path, file] : entries) {
    if (file == nullptr) {
      names_.erase(path);
    } else {
      names_[path] = file;
    }
  }
  unsynced_names_.push_back({folder, std::move(entries)});
}

void FaultFileSystem::LoseUnsynced(File& file, Unsynced unsynced) {
  const size_t at_risk = file.bytes.size() - file.durable;
  switch (unsynced) {
    case Unsynced::kLost:
      file.bytes.resize(file.durable);
      break;
    case Unsynced::kPrefix:
      file.bytes.resize(file.durable + Random(at_risk));
      break;
    case Unsynced::kZeros: {
      const size_t from = file.durable + Random(at_risk);
      std::fill(file.bytes.begin() + static_cast<std::ptrdiff_t>(from), file.bytes.end(), '\0');
      break;
    }
    case Unsynced::kRandomBlocks:
      for (size_t at = file.durable; at < file.bytes.size();) {
        const size_t end = std::min(file.bytes.size(), (at / kBlock + 1) * kBlock);
        if (Random(1) == 0) std::memset(&file.bytes[at], 0, end - at);
        at = end;
      }
      break;
    case Unsynced::kWritten:
      break;
  }
  file.durable = file.bytes.size();
}

void FaultFileSystem::EndProcess() {
  ++process_;
  locks_.clear();
  fault_.reset();
}

void FaultFileSystem::Crash(Unsynced unsynced) {
  EndProcess();
  size_t survive = Random(unsynced_names_.size());
  if (unsynced == Unsynced::kLost) survive = 0;
  if (unsynced == Unsynced::kWritten) survive = unsynced_names_.size();
  for (size_t i = 0; i < survive; ++i) {
    for (const auto& [path, file] : unsynced_names_[i].entries) {
      if (file == nullptr) {
        durable_names_.erase(path);
      } else {
        durable_names_[path] = file;
      }
    }
  }
  unsynced_names_.clear();
  names_ = durable_names_;
  for (const auto& [path, file] : names_) LoseUnsynced(*file, unsynced);
}

void FaultFileSystem::Kill() { EndProcess(); }

std::string FaultFileSystem::Contents(const std::string& path) const {
  DILOCO_CHECK(Exists(path));
  return names_.at(path)->bytes;
}

void FaultFileSystem::SetContents(const std::string& path, std::string contents) {
  auto file = std::make_shared<File>();
  file->durable = contents.size();
  file->bytes = std::move(contents);
  names_[path] = file;
  durable_names_[path] = file;
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultFileSystem::Create(const std::string& path) {
  DILOCO_RETURN_IF_ERROR(Change(absl::StrFormat("create %s", path)));
  auto file = std::make_shared<File>();
  ChangeNames(FolderOf(path), {{path, file}});
  return std::make_unique<Writer>(this, std::move(file), path);
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultFileSystem::OpenForAppend(const std::string& path) {
  const auto found = names_.find(path);
  if (found == names_.end()) return Create(path);
  return std::make_unique<Writer>(this, found->second, path);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> FaultFileSystem::OpenForRead(const std::string& path) {
  const auto found = names_.find(path);
  if (found == names_.end()) return NoSuchFile(path);
  return std::make_unique<Reader>(found->second);
}

absl::Status FaultFileSystem::Truncate(const std::string& path, uint64_t size) {
  DILOCO_RETURN_IF_ERROR(Change(absl::StrFormat("truncate %s %d", path, size)));
  const auto found = names_.find(path);
  if (found == names_.end()) return NoSuchFile(path);
  found->second->bytes.resize(static_cast<size_t>(size));
  found->second->durable = found->second->bytes.size();
  return absl::OkStatus();
}

absl::Status FaultFileSystem::Rename(const std::string& from, const std::string& to) {
  DILOCO_RETURN_IF_ERROR(Change(absl::StrFormat("rename %s %s", from, to)));
  if (folders_.erase(from) > 0) return RenameFolder(from, to);
  const auto found = names_.find(from);
  if (found == names_.end()) return NoSuchFile(from);
  ChangeNames(FolderOf(from), {{to, found->second}, {from, nullptr}});
  return absl::OkStatus();
}

// With what lies in it, all at once.
absl::Status FaultFileSystem::RenameFolder(const std::string& from, const std::string& to) {
  std::vector<std::pair<std::string, std::shared_ptr<File>>> entries;
  for (const auto& [path, file] : names_) {
    if (!path.starts_with(from + "/")) continue;
    entries.emplace_back(to + path.substr(from.size()), file);
    entries.emplace_back(path, nullptr);
  }
  folders_.insert(to);
  ChangeNames(FolderOf(from), std::move(entries));
  return absl::OkStatus();
}

absl::Status FaultFileSystem::Remove(const std::string& path) {
  DILOCO_RETURN_IF_ERROR(Change(absl::StrFormat("remove %s", path)));
  if (!Exists(path)) return NoSuchFile(path);
  ChangeNames(FolderOf(path), {{path, nullptr}});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> FaultFileSystem::List(const std::string& folder) {
  if (!folders_.contains(folder)) return absl::NotFoundError(absl::StrFormat("no folder \"%s\"", folder));
  std::vector<std::string> found;
  for (const auto& [path, file] : names_) {
    if (FolderOf(path) == folder) found.push_back(path.substr(folder.size() + 1));
  }
  return found;
}

absl::Status FaultFileSystem::CreateFolder(const std::string& folder) {
  folders_.insert(folder);
  return absl::OkStatus();
}

absl::Status FaultFileSystem::SyncFolder(const std::string& folder) {
  if (const absl::Status status = Change(absl::StrFormat("sync-folder %s", folder)); !status.ok()) {
    return SyncError(status);
  }
  std::vector<Renaming> others;
  for (Renaming& renaming : unsynced_names_) {
    if (renaming.folder != folder) {
      others.push_back(std::move(renaming));
      continue;
    }
    for (const auto& [path, file] : renaming.entries) {
      if (file == nullptr) {
        durable_names_.erase(path);
      } else {
        durable_names_[path] = file;
      }
    }
  }
  unsynced_names_ = std::move(others);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileLock>> FaultFileSystem::Lock(const std::string& path, const std::string& holder) {
  const auto [held, taken] = locks_.try_emplace(path, holder);
  if (!taken) return absl::FailedPreconditionError(held->second);
  return std::make_unique<HeldLock>(this, path);
}

}  // namespace diloco
