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

  // After the first error nothing is tried again.
  template <typename Operation>
  absl::Status Run(Operation operation) {
    if (!failure_.ok()) {
      return absl::FailedPreconditionError(
          absl::StrFormat("the store failed before (%s); restart to recover", failure_.message()));
    }
    failure_ = operation();
    return failure_;
  }

  absl::Status Append(GroupKind kind, const google::protobuf::Message& record) {
    return Run([&] { return AppendSingle(*journal_, kind, record.SerializeAsString(), Durable::kNow); });
  }
  absl::Status AppendGlobalDelta(const PublishedDelta& delta) {
    return Run([&] { return AppendDelta(*journal_, delta, Durable::kNow); });
  }
  absl::Status AppendEnd(const v1::EndRecord& record) {
    end_ = record.SerializeAsString();
    return Append(GroupKind::kEnd, record);
  }
  absl::Status WriteSnapshot(const v1::SnapshotRecord& header, absl::Span<const absl::Span<const float>> arrays,
                             absl::Span<const std::shared_ptr<const PublishedDelta>> newer);
  absl::StatusOr<SnapshotFile> NewestSnapshot() const {
    if (!newest_) return absl::FailedPreconditionError("there is no snapshot: the run is not seeded yet");
    return *newest_;
  }

 private:
  absl::Status StartJournal(uint64_t sequence, absl::Span<const std::shared_ptr<const PublishedDelta>> newer);
  // Gives a finished file its name, durably.
  absl::Status Publish(const std::string& path);
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

absl::Status Store::Impl::Publish(const std::string& path) {
  DILOCO_RETURN_IF_ERROR(files_->Rename(TemporaryPath(path), path));
  return files_->SyncFolder(options_.folder);
}

// A journal has its name only once it holds, durably, all that it begins with; so the journals before it are not
// needed for the snapshot of its number.
absl::Status Store::Impl::StartJournal(uint64_t sequence,
                                       absl::Span<const std::shared_ptr<const PublishedDelta>> newer) {
  const std::string path = JournalPath(options_.folder, sequence);
  JournalHeader header{.sequence = sequence};
  if (journal_ != nullptr) {
    header.previous_sequence = journal_->sequence();
    header.previous_bytes = journal_->size();
  }
  DILOCO_ASSIGN_OR_RETURN(std::unique_ptr<JournalWriter> journal,
                          JournalWriter::Create(files_, TemporaryPath(path), header));
  for (const std::shared_ptr<const PublishedDelta>& delta : newer) {
    DILOCO_RETURN_IF_ERROR(AppendDelta(*journal, *delta, Durable::kBySync));
  }
  if (end_) DILOCO_RETURN_IF_ERROR(AppendSingle(*journal, GroupKind::kEnd, *end_, Durable::kBySync));
  DILOCO_RETURN_IF_ERROR(journal->Sync());
  DILOCO_RETURN_IF_ERROR(Publish(path));
  DILOCO_ASSIGN_OR_RETURN(journal_, JournalWriter::Continue(files_, path, sequence, journal->size()));
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
    DILOCO_ASSIGN_OR_RETURN(const uint64_t consensus_offset,
                            WriteSnapshotFile(files_, TemporaryPath(path), sequence, header, arrays));
    DILOCO_RETURN_IF_ERROR(Publish(path));
    snapshots_.insert(sequence);
    newest_ = SnapshotFile{path, consensus_offset, header};
    DILOCO_RETURN_IF_ERROR(StartJournal(sequence, newer));
    return RemoveOld();
  });
}

absl::Status Store::Impl::RemoveOld() {
  const auto remove = [this](std::set<uint64_t>& from, uint64_t sequence, const std::string& path) {
    from.erase(sequence);
    return files_->Remove(path);
  };
  while (snapshots_.size() > static_cast<size_t>(options_.snapshots_kept)) {
    const uint64_t sequence = *snapshots_.begin();
    DILOCO_RETURN_IF_ERROR(remove(snapshots_, sequence, SnapshotPath(options_.folder, sequence)));
  }
  while (!bad_snapshots_.empty()) {
    const uint64_t sequence = *bad_snapshots_.begin();
    DILOCO_RETURN_IF_ERROR(remove(bad_snapshots_, sequence, SnapshotPath(options_.folder, sequence)));
  }
  const std::optional<uint64_t> first_needed = FirstJournalFor(journals_, *snapshots_.begin());
  while (first_needed && *journals_.begin() < *first_needed) {
    const uint64_t sequence = *journals_.begin();
    DILOCO_RETURN_IF_ERROR(remove(journals_, sequence, JournalPath(options_.folder, sequence)));
  }
  return absl::OkStatus();
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

}  // namespace diloco
