// Whether a coordinator's data folder is whole and would start again, without starting it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/merge/merge.h"

namespace diloco {

struct VerifiedFile {
  std::string path;
  uint64_t bytes = 0;
  int64_t groups = 0;       // Of a journal: committed appends.
  int64_t deltas = 0;       // Of a journal: global deltas among them.
  uint64_t torn_bytes = 0;  // Of the newest journal: behind its last commit, which a start would cut.
  // Of a snapshot.
  std::optional<int64_t> version;
};

struct JournalReport {
  std::string folder;
  std::string holder;  // The process that has it open; empty: none.
  std::vector<VerifiedFile> snapshots;
  std::vector<VerifiedFile> journals;
  // Absent: an empty folder, or a run that nobody has joined.
  std::optional<std::string> run_id;
  uint32_t generation = 0;
  int64_t members = 0;
  // Absent: not seeded. Versions of the consensus: where the oldest snapshot stands, and where the replay ends.
  std::optional<int64_t> first_version;
  int64_t last_version = 0;
  std::vector<std::string> consensus_digests;  // At last_version, by fragment.
  bool ended = false;
};

// Reads every snapshot and journal whole, checks every CRC, and replays the consensus from each snapshot to the end:
// every digest that a snapshot or a commit record names has to come out, and all replays have to end the same. Nothing
// is written, cut or locked. A folder in use is read as it was at some moment: what is being appended meanwhile counts
// as a torn tail.
// Errors: kNotFound: no such folder, or no journal in it; kDataLoss: damaged, with file and offset where there is one;
// kFailedPrecondition: of another version of the format, or a layout that this program cuts differently.
absl::StatusOr<JournalReport> VerifyJournal(const std::string& folder, const ParallelFor& parallel_for);

std::string JournalReportText(const JournalReport& report);
std::string JournalReportJson(const JournalReport& report);

}  // namespace diloco
