#include "coordinator/ctl/journal_verify.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "common/config/run_config.h"
#include "common/files/file_system.h"
#include "common/files/lock_holder.h"
#include "coordinator/driver/recovery.h"
#include "coordinator/store/journal_reader.h"
#include "coordinator/store/recovery.h"
#include "coordinator/store/snapshot_file.h"

namespace diloco {
namespace {

// A folder in use changes: what looks damaged may be half of a write, and retention removes files. It is looked at as
// often as this before that is believed.
constexpr int kLooksAtFolderInUse = 5;

absl::StatusOr<uint64_t> SizeOf(const std::string& path) {
  DILOCO_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, PosixFileSystem()->OpenForRead(path));
  return file->Size();
}

absl::Status ReadSnapshots(const FolderFiles& present, JournalReport& report) {
  for (const uint64_t sequence : present.snapshots) {
    VerifiedFile file{.path = SnapshotPath(report.folder, sequence)};
    DILOCO_ASSIGN_OR_RETURN(file.bytes, SizeOf(file.path));
    DILOCO_ASSIGN_OR_RETURN(const SnapshotContent content, ReadSnapshotFile(PosixFileSystem(), file.path, sequence));
    file.version = content.record.version();
    report.snapshots.push_back(std::move(file));
  }
  return absl::OkStatus();
}

absl::Status ReadJournals(const FolderFiles& present, JournalReport& report) {
  for (const uint64_t sequence : present.journals) {
    VerifiedFile file{.path = JournalPath(report.folder, sequence)};
    DILOCO_ASSIGN_OR_RETURN(const std::unique_ptr<JournalReader> reader,
                            JournalReader::Open(PosixFileSystem(), file.path, sequence));
    while (true) {
      DILOCO_ASSIGN_OR_RETURN(const std::optional<JournalGroup> group, reader->Next());
      if (!group) break;
      ++file.groups;
      file.deltas += group->kind == GroupKind::kGlobalDelta ? 1 : 0;
    }
    file.bytes = reader->file_bytes();
    file.torn_bytes = reader->file_bytes() - reader->committed_bytes();
    report.journals.push_back(std::move(file));
  }
  return absl::OkStatus();
}

// What a start that has `present` and no other file would come to.
absl::Status Replay(const FolderFiles& present, const ParallelFor& parallel_for, JournalReport& report) {
  DILOCO_ASSIGN_OR_RETURN(const Recovery recovery, Recover(PosixFileSystem(), report.folder, present));
  const RecoveredState& state = recovery.state;
  if (state.run == nullptr) return absl::OkStatus();
  const absl::StatusOr<RunConfig> config = ParseRunConfig(state.run->config_yaml(), "the run's configuration");
  if (!config.ok()) return absl::DataLossError(config.status().message());
  DILOCO_ASSIGN_OR_RETURN(const RecoveredRun run, RebuildRun(state, *config, parallel_for));
  report.run_id = state.run->run_id();
  report.generation = state.run->generation();
  report.members = static_cast<int64_t>(state.members.size());
  report.ended = state.end != nullptr;
  if (run.arrays == nullptr) return absl::OkStatus();
  std::vector<std::string> digests;
  for (const Digest& digest : run.digests) digests.push_back(digest.Hex());
  if (!report.consensus_digests.empty() && report.consensus_digests != digests) {
    return absl::DataLossError(
        absl::StrFormat("%s: replays from version %d and from version %d end in different digests", report.folder,
                        *report.first_version, run.snapshot_version));
  }
  report.first_version = std::min(run.snapshot_version, report.first_version.value_or(run.snapshot_version));
  report.last_version = *std::min_element(run.rounds.next_round.begin(), run.rounds.next_round.end());
  report.consensus_digests = std::move(digests);
  return absl::OkStatus();
}

absl::StatusOr<JournalReport> Look(const std::string& folder, const ParallelFor& parallel_for) {
  JournalReport report{.folder = folder};
  DILOCO_ASSIGN_OR_RETURN(report.holder, LockHolder(folder + "/LOCK"));
  const absl::StatusOr<FolderFiles> listed = ListFolder(PosixFileSystem(), folder);
  if (!listed.ok()) {
    return absl::NotFoundError(absl::StrFormat("%s; name a coordinator's data folder", listed.status().message()));
  }
  if (listed->journals.empty() && listed->snapshots.empty()) {
    return absl::NotFoundError(
        absl::StrFormat("there is no journal in \"%s\"; name a coordinator's data folder", folder));
  }
  DILOCO_RETURN_IF_ERROR(ReadSnapshots(*listed, report));
  DILOCO_RETURN_IF_ERROR(ReadJournals(*listed, report));
  FolderFiles part{.journals = listed->journals};
  if (listed->snapshots.empty()) {
    DILOCO_RETURN_IF_ERROR(Replay(part, parallel_for, report));
  }
  // From the oldest to the newest, each as if it were the only one.
  for (const uint64_t sequence : listed->snapshots) {
    part.snapshots = {sequence};
    DILOCO_RETURN_IF_ERROR(Replay(part, parallel_for, report));
  }
  return report;
}

}  // namespace

absl::StatusOr<JournalReport> VerifyJournal(const std::string& folder, const ParallelFor& parallel_for) {
  absl::StatusOr<JournalReport> report = Look(folder, parallel_for);
  for (int look = 1; look < kLooksAtFolderInUse && !report.ok(); ++look) {
    const absl::StatusOr<std::string> holder = LockHolder(folder + "/LOCK");
    if (!holder.ok() || holder->empty()) break;
    report = Look(folder, parallel_for);
  }
  return report;
}

}  // namespace diloco
