// What a data folder says a run was, computed again: the store's readers give the records, and all else (decoding, the
// outer step, every rule about what settles) is done a second time here, the slow way.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "common/base/digest.h"
#include "common/layout/layout.h"
#include "coordinator/store/journal_reader.h"
#include "coordinator/store/snapshot_file.h"
#include "diloco/v1/journal.pb.h"
#include "diloco/v1/types.pb.h"

namespace diloco::testing {

class JournalReplay {
 public:
  // Reads every snapshot and journal in `folder`, oldest first. Only outer optimizer `nesterov`.
  // Errors: what cannot be read, or what contradicts something else; kNotFound: not seeded yet.
  static absl::StatusOr<JournalReplay> Read(const std::string& folder);

  // Digest of a fragment's consensus after `version` global deltas; absent: not in the folder any more, or not yet.
  std::optional<Digest> DigestOf(int fragment, int64_t version) const;
  int64_t version(int fragment) const { return fragments_[static_cast<size_t>(fragment)].version; }
  int fragments() const { return static_cast<int>(fragments_.size()); }
  bool HasCommit(int fragment, int64_t round) const { return deltas_.contains({fragment, round}); }
  // The workers whose contribution of the round its own global delta merged; late ones are another round's.
  std::set<std::string> Merged(int fragment, int64_t round) const;
  // The workers with any contribution in that global delta, late ones too.
  std::set<std::string> AtWork(int fragment, int64_t round) const;
  // What became of a contribution, and the round whose global delta says so; the end record's: rounds of the run.
  struct Settled {
    v1::Settlement settlement = v1::SETTLEMENT_UNSPECIFIED;
    int64_t by_round = 0;
    Digest digest;
  };
  // Of one worker and fragment, by round.
  std::map<int64_t, Settled> SettledOf(const std::string& worker, int fragment) const;
  bool ended() const { return ended_; }
  // Times that journals were missing and a snapshot led on, because retention was faster than the copy of the folder.
  int gaps() const { return gaps_; }
  int64_t contributions_merged() const { return merged_; }
  int64_t contributions_merged_late() const { return merged_late_; }
  int64_t contributions_dropped() const { return dropped_; }

 private:
  struct Fragment {
    int64_t version = 0;
    std::vector<float> parameters;
    std::vector<float> momentum;
  };
  struct Delta {
    Digest payload;
    Digest settled;
    std::set<std::string> merged;
    std::set<std::string> at_work;
  };

  absl::Status Adopt(const SnapshotContent& snapshot);
  absl::Status Compare(const v1::SnapshotRecord& record) const;
  // Goes on from the newest snapshot that leads to the round.
  absl::Status CrossGap(int64_t round);
  absl::Status TakeJournal(const std::string& path, uint64_t sequence);
  absl::Status TakeDelta(const JournalGroup& group);
  absl::Status NoteSettled(const v1::SettledContribution& line, int64_t by_round);
  absl::Status Settle(const v1::SettledList& list, const v1::GlobalDeltaCommit& commit, Delta* delta);
  absl::Status TakeEnd(const v1::EndRecord& end);
  void Note(int fragment);

  std::vector<SnapshotContent> snapshots_;  // While reading.
  std::vector<Fragment> fragments_;
  std::map<std::pair<int, int64_t>, Digest> digests_;
  std::map<std::pair<int, int64_t>, Delta> deltas_;
  std::map<std::pair<std::string, int>, std::map<int64_t, Settled>> settled_;
  bool ended_ = false;
  int gaps_ = 0;
  int64_t merged_ = 0;
  int64_t merged_late_ = 0;
  int64_t dropped_ = 0;
};

}  // namespace diloco::testing
