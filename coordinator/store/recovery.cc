#include "coordinator/store/recovery.h"

#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "coordinator/store/journal_reader.h"
#include "coordinator/store/replay.h"
#include "coordinator/store/snapshot_file.h"

namespace diloco {
namespace {

constexpr std::string_view kJournalPrefix = "journal-";
constexpr std::string_view kSnapshotPrefix = "snapshot-";
constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr size_t kSequenceDigits = 10;

std::optional<uint64_t> SequenceOf(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string digits(name.substr(prefix.size()));
  uint64_t sequence = 0;
  if (digits.size() != kSequenceDigits || digits.find_first_not_of("0123456789") != std::string::npos ||
      !absl::SimpleAtoi(digits, &sequence)) {
    return std::nullopt;
  }
  return sequence;
}

// The newest snapshot that is good goes into `replay`; nothing when there is none at all.
absl::Status ReplaySnapshot(FileSystem* files, const std::string& folder, const FolderFiles& present,
                            Recovery& recovery, Replay& replay) {
  absl::Status newest_error;
  for (auto sequence = present.snapshots.rbegin(); sequence != present.snapshots.rend(); ++sequence) {
    absl::StatusOr<SnapshotContent> content = ReadSnapshotFile(files, SnapshotPath(folder, *sequence), *sequence);
    if (content.ok()) {
      recovery.snapshot_sequence = *sequence;
      recovery.consensus_offset = content->consensus_offset;
      replay.Start(*std::move(content));
      return absl::OkStatus();
    }
    if (absl::IsFailedPrecondition(content.status())) return content.status();
    newest_error.Update(content.status());
    recovery.bad_snapshots.insert(*sequence);
    recovery.state.warnings.push_back(
        absl::StrFormat("falling back to the snapshot before: %s", content.status().message()));
  }
  return newest_error;
}

// `previous`: the journal that was replayed before, if one was.
absl::Status ReplayJournal(FileSystem* files, const std::string& folder, uint64_t sequence,
                           std::optional<uint64_t> previous, Recovery& recovery, Replay& replay) {
  const std::string path = JournalPath(folder, sequence);
  DILOCO_ASSIGN_OR_RETURN(const std::unique_ptr<JournalReader> reader, JournalReader::Open(files, path, sequence));
  if (previous) {
    const JournalHeader& header = reader->header();
    if (header.previous_sequence != *previous) {
      return absl::DataLossError(absl::StrFormat("\"%s\" is missing; restore the folder from a copy",
                                                 JournalPath(folder, header.previous_sequence)));
    }
    if (recovery.torn || header.previous_bytes != recovery.committed_bytes) {
      return DamagedFile(
          JournalPath(folder, *previous), recovery.committed_bytes,
          absl::StrFormat("%d bytes were committed when the journal behind it was begun", header.previous_bytes));
    }
  }
  while (true) {
    DILOCO_ASSIGN_OR_RETURN(std::optional<JournalGroup> group, reader->Next());
    if (!group) break;
    DILOCO_RETURN_IF_ERROR(replay.Apply(path, *std::move(group)));
  }
  recovery.committed_bytes = reader->committed_bytes();
  recovery.torn = reader->committed_bytes() < reader->file_bytes();
  if (recovery.torn) {
    recovery.state.warnings.push_back(absl::StrFormat("\"%s\": cut %d bytes at offset %d that were never committed",
                                                      path, reader->file_bytes() - reader->committed_bytes(),
                                                      reader->committed_bytes()));
  }
  return absl::OkStatus();
}

}  // namespace

std::string JournalPath(const std::string& folder, uint64_t sequence) {
  return absl::StrFormat("%s/%s%010d", folder, kJournalPrefix, sequence);
}
std::string SnapshotPath(const std::string& folder, uint64_t sequence) {
  return absl::StrFormat("%s/%s%010d", folder, kSnapshotPrefix, sequence);
}
std::string TemporaryPath(const std::string& path) { return path + std::string(kTemporarySuffix); }

absl::StatusOr<FolderFiles> ListFolder(FileSystem* files, const std::string& folder) {
  DILOCO_ASSIGN_OR_RETURN(const std::vector<std::string> names, files->List(folder));
  FolderFiles present;
  for (const std::string& name : names) {
    std::string_view base = name;
    const bool temporary = base.ends_with(kTemporarySuffix);
    if (temporary) base.remove_suffix(kTemporarySuffix.size());
    const std::optional<uint64_t> journal = SequenceOf(base, kJournalPrefix);
    const std::optional<uint64_t> snapshot = SequenceOf(base, kSnapshotPrefix);
    if (!journal && !snapshot) continue;
    if (temporary) {
      present.leftovers.push_back(absl::StrFormat("%s/%s", folder, name));
    } else if (journal) {
      present.journals.insert(*journal);
    } else {
      present.snapshots.insert(*snapshot);
    }
  }
  return present;
}

std::optional<uint64_t> FirstJournalFor(const std::set<uint64_t>& journals, uint64_t snapshot_sequence) {
  const auto above = journals.upper_bound(snapshot_sequence);
  if (above == journals.begin()) return std::nullopt;
  return *std::prev(above);
}

absl::StatusOr<Recovery> Recover(FileSystem* files, const std::string& folder, const FolderFiles& present) {
  Recovery recovery;
  if (present.journals.empty() && present.snapshots.empty()) return recovery;
  Replay replay;
  DILOCO_RETURN_IF_ERROR(ReplaySnapshot(files, folder, present, recovery, replay));
  const uint64_t from = recovery.snapshot_sequence.value_or(0);
  const std::optional<uint64_t> first = FirstJournalFor(present.journals, from);
  if (!first) {
    return absl::DataLossError(
        absl::StrFormat("\"%s\" is missing; restore the folder from a copy", JournalPath(folder, from)));
  }
  std::optional<uint64_t> previous;
  for (auto sequence = present.journals.find(*first); sequence != present.journals.end(); ++sequence) {
    DILOCO_RETURN_IF_ERROR(ReplayJournal(files, folder, *sequence, previous, recovery, replay));
    previous = *sequence;
  }
  std::vector<std::string> warnings = std::move(recovery.state.warnings);
  recovery.state = std::move(replay).Finish();
  recovery.state.warnings = std::move(warnings);
  return recovery;
}

}  // namespace diloco
