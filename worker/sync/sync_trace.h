// What the sync thread and its connections did, as slices of a trace, from the events that SyncCore handles and the
// messages that it sends. Not thread-safe: the sync thread's.
//
//   sync         encode, stage, apply, copy state: what SyncCore did with an event
//   upload N     send: a message of connection N, until gRPC has passed it on and takes the next
//   download     download: a global delta or a snapshot, from its first message that is here to its last
//   (of its own) upload: a contribution, from its first message to the verdict, or its round's average
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/trace/trace.h"
#include "diloco/v1/worker.pb.h"
#include "worker/sync/sync_core.h"

namespace diloco {

class SyncTrace {
 public:
  // `tracer` may be null: nothing is traced. `connections`: that carry uploads.
  SyncTrace(Tracer* tracer, int connections);
  bool on() const { return tracer_ != nullptr; }

  // Around the handling of an event.
  void Begin(const SyncEvent& event);
  void End();
  // In between: a fragment of the consensus has a newer version.
  void NoteApplied();
  // A message goes out.
  void NoteSent(int connection, const v1::UploadRequest& request);

 private:
  // In place of a fragment: the work or the transfer is about all of them.
  static constexpr int64_t kAllFragments = -1;

  // Under way on a link.
  struct Transfer {
    MonotonicTime begin;
    int64_t round = 0;
    int64_t fragment = 0;
    uint64_t bytes = 0;
  };
  // What the sync thread does with the event.
  struct Work {
    std::string name;  // Empty: not worth a slice.
    int64_t round = 0;
    int64_t fragment = kAllFragments;
    uint64_t bytes = 0;
  };

  void Note(const OuterGradientTaken& event);
  void Note(const TrainingAdvanced& event);
  void Note(const StateWanted& event);
  void Note(const UploadReplied& event);
  void Note(const UploadWritten& event);
  void Note(const UploadClosed& event);
  void Note(const SnapshotItemRead& event);
  void Note(const SubscriptionItemRead& event);
  void Note(const DownloadFinished& event);
  template <typename Event>
  void Note(const Event&) {}
  void EndUpload(int64_t round, int64_t fragment, const std::string& verdict);
  void ExtendDownload(int64_t round, int64_t fragment, uint64_t bytes);
  void EndDownload(const char* name);

  Tracer* const tracer_;
  Tracer::Track sync_ = 0;
  std::vector<Tracer::Track> connections_;
  Tracer::Track downloads_ = 0;

  MonotonicTime began_;
  Work work_;
  int applied_ = 0;                                                // Versions, by this event.
  std::vector<std::optional<Transfer>> sending_;                   // By connection.
  std::map<std::pair<int64_t, int64_t>, Transfer> contributions_;  // By round and fragment, without a verdict.
  std::optional<Transfer> download_;
};

}  // namespace diloco
