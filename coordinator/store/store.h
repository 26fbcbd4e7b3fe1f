// The coordinator's durable state: an append-only journal and snapshots of the consensus in one folder.
//
//   DIR/LOCK                   held by the running process, names it
//   DIR/journal-NNNNNNNNNN     records behind those of the journal before it; when there is a snapshot of that number,
//                              since then (journal_format.h)
//   DIR/snapshot-NNNNNNNNNN    a SnapshotRecord and the raw consensus, numbered from 1 (snapshot_file.h)
//   DIR/checkpoints/           not the store's: see the driver
//
// A record is durable when the call that appended it returned OK. A call that fails ends in one of two ways, which
// StoreErrorOf tells apart:
//
//   kFull, kReadOnly   the disk did not take it, before any sync: nothing of it is left, nothing else is in doubt, and
//                      the same call may be made again. The message has path, error and free bytes.
//   kBroken            anything else, a failed sync above all, which is never retried as if it had worked: the record
//                      may or may not be found by the next start, and the store refuses everything until then.
//
// Used from one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/files/file_system.h"
#include "diloco/v1/journal.pb.h"
#include "diloco/v1/types.pb.h"

namespace diloco {

// One published global delta. `messages` are serialised v1::SubscribeResponse: the chunks, then the settled list, then
// the commit record; the very bytes that the journal holds and every subscriber is sent. Immutable once shared.
struct PublishedDelta {
  int fragment = 0;
  int64_t round = 0;
  std::vector<std::string> messages;
  v1::GlobalDeltaCommit commit;
  v1::SettledList settled;

  uint64_t size_bytes() const;
};

// Everything that was durable, from the newest good snapshot and the journal behind it.
struct RecoveredState {
  // Absent: an empty folder.
  std::unique_ptr<v1::RunRecord> run;
  // Absent: not seeded.
  std::unique_ptr<v1::SnapshotRecord> snapshot;
  std::vector<float> consensus;  // The snapshot's raw part: the consensus, then the residual if it has one.
  // Committed after the snapshot, in commit order (rounds ascend for each fragment).
  std::vector<std::shared_ptr<const PublishedDelta>> deltas;
  // Members, newest record of each, by worker id; evaluations, by (version, worker id). The snapshot's own already
  // merged in.
  std::vector<v1::MemberRecord> members;
  std::vector<v1::Evaluation> evaluations;
  // Absent: the run has not ended.
  std::unique_ptr<v1::EndRecord> end;
  // What was cut or passed over, one sentence each with file and offset, for the log.
  std::vector<std::string> warnings;
};

enum class StoreError { kFull, kReadOnly, kBroken };
// `status`: not OK, from a call that changes the store.
StoreError StoreErrorOf(const absl::Status& status);

struct StoreOptions {
  std::string folder;
  std::string holder;      // Written into LOCK, such as "diloco-coordinator pid 4711 on host".
  int snapshots_kept = 2;  // With the journals from the oldest of them on.
};

class Store {
 public:
  // Locks the folder, recovers, and cuts what was never committed before anything is appended.
  // Errors: kFailedPrecondition when another process holds the folder, naming it; kDataLoss with file and offset when
  // something committed is damaged and no newer snapshot covers it; others from the file system.
  static absl::StatusOr<std::unique_ptr<Store>> Open(FileSystem* files, StoreOptions options,
                                                     RecoveredState* recovered);
  ~Store();

  // The run's record comes first; a later one replaces it.
  absl::Status AppendRun(const v1::RunRecord& record);
  absl::Status AppendMember(const v1::MemberRecord& record);
  absl::Status AppendEvaluation(const v1::EvaluationRecord& record);
  absl::Status AppendGlobalDelta(const PublishedDelta& delta);
  absl::Status AppendEnd(const v1::EndRecord& record);

  // Writes aside, syncs, renames, syncs the folder; then starts a new journal and drops what is no longer needed. OK
  // once the snapshot is durable: when the disk takes no more after that, the rest is done with the next snapshot, and
  // this journal goes on. The snapshot of a newer generation has its journal first, so that nothing which came before
  // is ever replayed onto it. A snapshot that the disk did not take leaves no file behind, but for such a journal,
  // which then goes on from the one before it. `arrays`: the raw part in the order of SnapshotRecord, of the size that
  // the header says. Global deltas that were appended but are not in the snapshot (round >= header.version()) are given
  // again in `newer`, rounds ascending for each fragment, so that the new journal holds them. `header` must hold the
  // run, and every member and evaluation that is to be kept; the store itself carries the end record over.
  absl::Status WriteSnapshot(const v1::SnapshotRecord& header, absl::Span<const absl::Span<const float>> arrays,
                             absl::Span<const std::shared_ptr<const PublishedDelta>> newer);

  // Path of the newest snapshot and the offset of its raw part, for readers on other threads; a kept snapshot is
  // never changed. Errors: kFailedPrecondition when there is none.
  struct SnapshotFile {
    std::string path;
    uint64_t consensus_offset = 0;
    v1::SnapshotRecord header;
  };
  absl::StatusOr<SnapshotFile> NewestSnapshot() const;

  // Size of the journal that records are appended to.
  uint64_t journal_bytes() const;

 private:
  class Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace diloco
