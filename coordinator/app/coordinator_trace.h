// What the coordinator did, as slices of a trace, from what the driver tells. Not thread-safe: the driver's thread's.
//
//   fragment F     merge, commit (the journal's sync with it), publish
//   snapshot       snapshot, checkpoint
//   (of their own) round: from its opening to its publication; contribution: from its first chunk to the verdict
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/trace/trace.h"
#include "coordinator/round/round_events.h"

namespace diloco {

class CoordinatorTrace {
 public:
  // `tracer` may be null: nothing is traced.
  explicit CoordinatorTrace(Tracer* tracer);

  // As in DriverObserver.
  void OnEffect(const RoundEffect& effect);
  void OnChunkReceived(const ContributionId& id, uint64_t payload_bytes);
  void OnContribution(const ContributionId& id, const std::string& verdict);
  void OnMerged(int fragment, int64_t round);
  void OnCommitted(int fragment, int64_t round, absl::Duration since_opened, int merged, int dropped,
                   const std::string& reason);
  void OnPublished(uint64_t payload_bytes, int subscribers);
  void OnSnapshot(int64_t version, absl::Duration took);
  void OnCheckpoint(int64_t version);
  void OnMembers(int alive, int participating);

 private:
  // Of the round that a fragment is closing.
  struct Closing {
    Tracer::Track track = 0;
    MonotonicTime began;  // Its merge, then its commit.
  };
  struct Arriving {
    MonotonicTime began;
    uint64_t bytes = 0;
  };

  Closing& Of(int fragment);
  void Begin(const StartMerge& effect);
  void Begin(const PersistCommit& effect);
  void Begin(const PublishGlobalDelta& effect);
  template <typename Effect>
  void Begin(const Effect&) {}

  Tracer* const tracer_;
  Tracer::Track snapshots_ = 0;
  std::map<int, Closing> fragments_;
  std::map<ContributionId, Arriving> arriving_;
  PublishGlobalDelta publishing_;
};

}  // namespace diloco
