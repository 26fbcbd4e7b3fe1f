// What the nodes of a simulated cluster tell whoever watches over its rules: each fact at the seam where it can be seen
// from outside, as the wire's own messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/types/span.h"

#include "common/base/digest.h"
#include "diloco/v1/worker.pb.h"

namespace diloco::sim {

class Witness {
 public:
  virtual ~Witness() = default;

  // Breaks off the run: a rule is broken.
  virtual void Fail(const std::string& rule) = 0;
  // For the last lines before a failure.
  virtual void Note(const std::string& line) = 0;

  // A worker put a chunk on the wire.
  virtual void OnSent(const v1::UploadRequest& request) = 0;
  // The coordinator starts.
  virtual void OnCoordinatorStarted() = 0;
  // The run is held, and why; empty: it goes on.
  virtual void OnHold(const std::string& reason) = 0;
  // An operator pauses the run, or lets it go on.
  virtual void OnPaused(bool paused) = 0;
  virtual void OnRunStopped(int64_t rounds) = 0;
  // Why the fragment's oldest round has not closed.
  virtual void OnRoundWaiting(int fragment, int64_t round, const std::string& reason) = 0;
  // The round's set is fixed; then, why it closed.
  virtual void OnRoundClosed(int fragment, int64_t round) = 0;
  virtual void OnRoundCommitted(int fragment, int64_t round, const std::string& reason) = 0;
  // The coordinator is about to admit a worker.
  virtual void OnAdmitted(const std::string& worker, uint64_t incarnation) = 0;
  // The coordinator answered a chunk that a worker had sent so. `life` counts the coordinator's starts.
  virtual void OnAnswered(uint64_t life, const v1::UploadRequest& request, v1::ContributionVerdict verdict) = 0;
  // A serialised v1::SubscribeResponse left for a subscriber.
  virtual void OnGiven(const std::string& worker, std::string_view message) = 0;
  // A snapshot left for a worker, whole.
  virtual void OnSnapshotGiven(const v1::SnapshotHeader& header, std::string_view consensus) = 0;
  // A worker has become a member; the consensus that it holds from now on is of this generation.
  virtual void OnJoined(const std::string& worker, uint32_t generation) = 0;
  // A worker's consensus of a fragment is at a version.
  virtual void OnConsensus(const std::string& worker, int fragment, int64_t version, const Digest& digest) = 0;
  // A process of a worker has ended, and what it held in memory is gone.
  virtual void OnWorkerDied(const std::string& worker, uint64_t incarnation) = 0;
};

}  // namespace diloco::sim
