#include "coordinator/store/store.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "coordinator/store/journal_writer.h"
#include "coordinator/store/recovery.h"
#include "coordinator/store/snapshot_file.h"

namespace diloco {
namespace {

using Durable = JournalWriter::Durable;

// A message by itself: within the commit block where it fits, else as a record before it.
absl::Status AppendSingle(JournalWriter& journal, GroupKind kind, const std::string& message, Durable durable) {
  if (message.size() <= kMaxCommitPayloadBytes) return journal.AppendGroup(kind, {}, message, durable);
  return journal.AppendGroup(kind, {message}, {}, durable);
}

absl::Status AppendDelta(JournalWriter& journal, const PublishedDelta& delta, Durable durable) {
  DILOCO_CHECK(delta.messages.size() == size_t{delta.commit.chunk_count()} + 2);
  const std::vector<std::string_view> records(delta.messages.begin(), delta.messages.end() - 1);
  return journal.AppendGroup(GroupKind::kGlobalDelta, records, delta.messages.back(), durable);
}

}  // namespace

uint64_t PublishedDelta::size_bytes() const {
  uint64_t bytes = 0;
  for (const std::string& message : messages) bytes += message.size();
  return bytes;
}

class Store::Impl {
 public:
  Impl(FileSystem* files, StoreOptions options) : files_(files), options_(std::move(options)) {}

  absl::Status Open(RecoveredState* recovered);

  // After the first error that is not a refusal of the disk nothing is tried again.
  template <typename Operation>
  absl::Status Run(Operation operation) {
    if (!failure_.ok()) {
      return absl::FailedPreconditionError(
          absl::StrFormat("the store failed before (%s); restart to recover", failure_.message()));
    }
    const absl::Status status = operation();
    if (DiskRefused(status)) return WithFreeBytes(files_, options_.folder, status);
    failure_ = status;
    return status;
  }

  absl::Status Append(GroupKind kind, const google::protobuf::Message& record) {
    return Run([&] { return AppendSingle(*journal_, kind, record.SerializeAsString(), Durable::kNow); });
  }
  absl::Status AppendGlobalDelta(const PublishedDelta& delta) {
    return Run([&] { return AppendDelta(*journal_, delta, Durable::kNow); });
  }
  absl::Status AppendEnd(const v1::EndRecord& record) {
    const absl::Status status = Append(GroupKind::kEnd, record);
    if (status.ok()) end_ = record.SerializeAsString();
    return status;
  }
  absl::Status WriteSnapshot(const v1::SnapshotRecord& header, absl::Span<const absl::Span<const float>> arrays,
                             absl::Span<const std::shared_ptr<const PublishedDelta>> newer);
  absl::StatusOr<SnapshotFile> NewestSnapshot() const {
    if (!newest_) return absl::FailedPreconditionError("there is no snapshot: the run is not seeded yet");
    return *newest_;
  }
  uint64_t journal_bytes() const { return journal_->size(); }

 private:
  absl::Status StartJournal(uint64_t sequence, absl::Span<const std::shared_ptr<const PublishedDelta>> newer);
  // Whole and synced; returns its size.
  absl::StatusOr<uint64_t> WriteJournal(const std::string& path, uint64_t sequence,
                                        absl::Span<const std::shared_ptr<const PublishedDelta>> newer);
  // Gives a file that `written` finished its name, durably. What the disk did not take is removed again.
  absl::Status Publish(const std::string& path, const absl::Status& written);
  absl::Status RemoveOld();

  FileSystem* const files_;
  const StoreOptions options_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<JournalWriter> journal_;
  std::set<uint64_t> journals_;
  std::set<uint64_t> snapshots_;      // Those known to be bad left out.
  std::set<uint64_t> bad_snapshots_;  // On disk until the next snapshot is.
  std::optional<SnapshotFile> newest_;
  std::optional<std::string> end_;  // Serialised; every new journal repeats it.
  absl::Status failure_;
};

absl::Status Store::Impl::Open(RecoveredState* recovered) {
  const std::string& folder = options_.folder;
  if (const absl::Status made = files_->CreateFolder(folder); !made.ok()) {
    return absl::InvalidArgumentError(absl::StrFormat("%s; use another --data-dir", std::string(made.message())));
  }
  absl::StatusOr<std::unique_ptr<FileLock>> lock = files_->Lock(folder + "/LOCK", options_.holder);
  if (absl::IsFailedPrecondition(lock.status())) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "data folder \"%s\" is held by \"%s\"; stop it or use another --data-dir", folder, lock.status().message()));
  }
  DILOCO_RETURN_IF_ERROR(lock.status());
  lock_ = *std::move(lock);

  DILOCO_ASSIGN_OR_RETURN(FolderFiles present, ListFolder(files_, folder));
  // A process that was killed may have left names and bytes that are not durable yet: first they are made so, then
  // they are believed.
  DILOCO_RETURN_IF_ERROR(files_->SyncFolder(folder));
  if (!present.journals.empty()) {
    DILOCO_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> last,
                            files_->OpenForAppend(JournalPath(folder, *present.journals.rbegin())));
    DILOCO_RETURN_IF_ERROR(last->Sync());
  }
  DILOCO_ASSIGN_OR_RETURN(Recovery recovery, Recover(files_, folder, present));
  for (const std::string& path : present.leftovers) DILOCO_RETURN_IF_ERROR(files_->Remove(path));
  journals_ = std::move(present.journals);
  snapshots_ = std::move(present.snapshots);
  bad_snapshots_ = std::move(recovery.bad_snapshots);
  for (const uint64_t sequence : bad_snapshots_) snapshots_.erase(sequence);
  if (recovery.snapshot_sequence) {
    newest_ = SnapshotFile{SnapshotPath(folder, *recovery.snapshot_sequence), recovery.consensus_offset,
                           *recovery.state.snapshot};
  }
  if (recovery.state.end != nullptr) end_ = recovery.state.end->SerializeAsString();

  if (journals_.empty()) {
    DILOCO_RETURN_IF_ERROR(StartJournal(0, {}));
  } else {
    const uint64_t sequence = *journals_.rbegin();
    const std::string path = JournalPath(folder, sequence);
    if (recovery.torn) DILOCO_RETURN_IF_ERROR(files_->Truncate(path, recovery.committed_bytes));
    DILOCO_ASSIGN_OR_RETURN(journal_, JournalWriter::Continue(files_, path, sequence, recovery.committed_bytes));
  }
  *recovered = std::move(recovery.state);
  return absl::OkStatus();
}

absl::Status Store::Impl::Publish(const std::string& path, const absl::Status& written) {
  absl::Status status = written;
  if (status.ok()) status = files_->Rename(TemporaryPath(path), path);
  if (status.ok()) return files_->SyncFolder(options_.folder);
  if (DiskRefused(status)) {
    // When it can't be removed, or never was there, the next start or the next try at the name sees to it.
    static_cast<void>(files_->Remove(TemporaryPath(path)).ok());
  }
  return status;
}

absl::StatusOr<uint64_t> Store::Impl::WriteJournal(const std::string& path, uint64_t sequence,
                                                   absl::Span<const std::shared_ptr<const PublishedDelta>> newer) {
  JournalHeader header{.sequence = sequence};
  if (journal_ != nullptr) {
    DILOCO_RETURN_IF_ERROR(journal_->CutBack());  // Nothing is appended to it any more.
    header.previous_sequence = journal_->sequence();
    header.previous_bytes = journal_->size();
  }
  DILOCO_ASSIGN_OR_RETURN(std::unique_ptr<JournalWriter> journal, JournalWriter::Create(files_, path, header));
  for (const std::shared_ptr<const PublishedDelta>& delta : newer) {
    DILOCO_RETURN_IF_ERROR(AppendDelta(*journal, *delta, Durable::kBySync));
  }
  if (end_) DILOCO_RETURN_IF_ERROR(AppendSingle(*journal, GroupKind::kEnd, *end_, Durable::kBySync));
  DILOCO_RETURN_IF_ERROR(journal->Sync());
  return journal->size();
}

// A journal has its name only once it holds, durably, all that it begins with; so the journals before it are not
// needed for the snapshot of its number.
absl::Status Store::Impl::StartJournal(uint64_t sequence,
                                       absl::Span<const std::shared_ptr<const PublishedDelta>> newer) {
  const std::string path = JournalPath(options_.folder, sequence);
  const absl::StatusOr<uint64_t> bytes = WriteJournal(TemporaryPath(path), sequence, newer);
  DILOCO_RETURN_IF_ERROR(Publish(path, bytes.status()));
  absl::StatusOr<std::unique_ptr<JournalWriter>> journal = JournalWriter::Continue(files_, path, sequence, *bytes);
  // There is no way back to the journal before it.
  if (!journal.ok()) return absl::InternalError(journal.status().message());
  journal_ = *std::move(journal);
  journals_.insert(sequence);
  return absl::OkStatus();
}

absl::Status Store::Impl::WriteSnapshot(const v1::SnapshotRecord& header,
                                        absl::Span<const absl::Span<const float>> arrays,
                                        absl::Span<const std::shared_ptr<const PublishedDelta>> newer) {
  return Run([&]() -> absl::Status {
    uint64_t sequence = *journals_.rbegin();
    for (const std::set<uint64_t>& taken : {snapshots_, bad_snapshots_}) {
      if (!taken.empty()) sequence = std::max(sequence, *taken.rbegin());
    }
    ++sequence;
    const std::string path = SnapshotPath(options_.folder, sequence);
    const absl::StatusOr<uint64_t> consensus_offset =
        WriteSnapshotFile(files_, TemporaryPath(path), sequence, header, arrays);
    absl::Status written = consensus_offset.status();
    // What the journal before it holds does not follow a consensus that was replaced.
    const bool replaces = header.run().generation() > (newest_ ? newest_->header.run().generation() : 0);
    if (written.ok() && replaces) written = StartJournal(sequence, newer);
    DILOCO_RETURN_IF_ERROR(Publish(path, written));
    snapshots_.insert(sequence);
    newest_ = SnapshotFile{path, *consensus_offset, header};
    // The snapshot is there, and neither of these has to be now.
    const absl::Status started = replaces ? absl::OkStatus() : StartJournal(sequence, newer);
    if (!started.ok() && !DiskRefused(started)) return started;
    const absl::Status removed = RemoveOld();
    return DiskRefused(removed) ? absl::OkStatus() : removed;
  });
}

// Forgets a file only once it is gone.
absl::Status Store::Impl::RemoveOld() {
  const auto remove_first = [this](std::set<uint64_t>& from, auto path_of) -> absl::Status {
    DILOCO_RETURN_IF_ERROR(files_->Remove(path_of(options_.folder, *from.begin())));
    from.erase(from.begin());
    return absl::OkStatus();
  };
  while (snapshots_.size() > static_cast<size_t>(options_.snapshots_kept)) {
    DILOCO_RETURN_IF_ERROR(remove_first(snapshots_, SnapshotPath));
  }
  while (!bad_snapshots_.empty()) {
    DILOCO_RETURN_IF_ERROR(remove_first(bad_snapshots_, SnapshotPath));
  }
  const std::optional<uint64_t> first_needed = FirstJournalFor(journals_, *snapshots_.begin());
  while (first_needed && *journals_.begin() < *first_needed) {
    DILOCO_RETURN_IF_ERROR(remove_first(journals_, JournalPath));
  }
  return absl::OkStatus();
}

StoreError StoreErrorOf(const absl::Status& status) {
  DILOCO_CHECK(!status.ok());
  if (!DiskRefused(status)) return StoreError::kBroken;
  return absl::IsPermissionDenied(status) ? StoreError::kReadOnly : StoreError::kFull;
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(FileSystem* files, StoreOptions options, RecoveredState* recovered) {
  DILOCO_CHECK(options.snapshots_kept >= 1);
  auto impl = std::make_unique<Impl>(files, std::move(options));
  DILOCO_RETURN_IF_ERROR(impl->Open(recovered));
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

absl::Status Store::AppendRun(const v1::RunRecord& record) { return impl_->Append(GroupKind::kRun, record); }
absl::Status Store::AppendMember(const v1::MemberRecord& record) { return impl_->Append(GroupKind::kMember, record); }
absl::Status Store::AppendEvaluation(const v1::EvaluationRecord& record) {
  return impl_->Append(GroupKind::kEvaluation, record);
}
absl::Status Store::AppendGlobalDelta(const PublishedDelta& delta) { return impl_->AppendGlobalDelta(delta); }
absl::Status Store::AppendEnd(const v1::EndRecord& record) { return impl_->AppendEnd(record); }

absl::Status Store::WriteSnapshot(const v1::SnapshotRecord& header, absl::Span<const absl::Span<const float>> arrays,
                                  absl::Span<const std::shared_ptr<const PublishedDelta>> newer) {
  return impl_->WriteSnapshot(header, arrays, newer);
}

absl::StatusOr<Store::SnapshotFile> Store::NewestSnapshot() const { return impl_->NewestSnapshot(); }

uint64_t Store::journal_bytes() const { return impl_->journal_bytes(); }

}  // namespace diloco
