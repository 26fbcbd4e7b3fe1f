// Watches over a simulated cluster from outside. Its verdicts follow from the wire's messages, from the bytes on the
// disk and from a second, naive implementation of the arithmetic; nothing of the product decides them.
//
//   nothing published is lost or changed   every message that ever left for anybody, and after each crash the folder
//   nothing counts twice                   settled lists against what workers sent; the average from scratch
//   consensus equal everywhere             workers, snapshots, commit and end records against the naive chain
//   everything stored is settled           what one life of the coordinator acknowledged, by the end of it
//   every round closes or says why         what people are told, against the configuration and the clock
//   rates are told before they hold        each worker's settings against the averages that it gets after them
//   nobody is rewound silently             after the coordinator lost its disk nothing else is published for a round
//                                          that was, before there is another generation, which begins with a consensus
//                                          that was published
//   only the current process counts        bytes of a replaced incarnation are never acknowledged
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/codec/rounding.h"
#include "common/config/run_config.h"
#include "tests/sim/check/folder_scan.h"
#include "tests/sim/check/naive_outer.h"
#include "tests/sim/check/round_watch.h"
#include "tests/sim/event_loop.h"
#include "tests/sim/witness.h"

namespace diloco::sim {

// A fragment as the test knows it.
struct FragmentFacts {
  std::vector<float> initial;
  std::vector<bool> decayed;
};

class Auditor final : public Witness {
 public:
  Auditor(const RunConfig& config, std::vector<FragmentFacts> fragments, const EventLoop* loop);

  void Fail(const std::string& rule) override;
  void Note(const std::string& line) override;
  void OnSent(const v1::UploadRequest& request) override;
  void OnCoordinatorStarted() override { rounds_.OnStarted(); }
  void OnHold(const std::string& reason) override;
  void OnPaused(bool paused) override;
  void OnRunStopped(int64_t rounds) override { rounds_.OnRunStopped(rounds); }
  void OnRoundWaiting(int fragment, int64_t round, const std::string& reason) override;
  void OnRoundClosed(int fragment, int64_t round) override;
  void OnRoundCommitted(int fragment, int64_t round, const std::string& reason) override;
  void OnAdmitted(const std::string& worker, uint64_t incarnation) override;
  void OnAnswered(uint64_t life, const v1::UploadRequest& request, v1::ContributionVerdict verdict) override;
  void OnGiven(const std::string& worker, std::string_view message) override;
  void OnSnapshotGiven(const v1::SnapshotHeader& header, std::string_view consensus) override;
  void OnConsensus(const std::string& worker, int fragment, int64_t version, const Digest& digest) override;
  void OnJoined(const std::string& worker, uint32_t generation) override;
  void OnWorkerDied(const std::string& worker, uint64_t incarnation) override;

  // A message of a global delta, or the end record, was appended to the journal.
  void OnJournaled(std::string_view message);
  // What was journaled of this round is final from here on.
  void OnPublished(int fragment, int64_t round);
  // After a death: what the next life may find.
  void OnCoordinatorDied(FileSystem* files, const std::string& folder);
  // A life has begun, and publishes what it has found; one that ends before that does not.
  void OnCoordinatorRecovered(FileSystem* files, const std::string& folder);
  // It stands still for so long.
  void OnCoordinatorStopped(absl::Duration duration) { rounds_.OnStopped(duration); }
  // Now and then, while the coordinator is there.
  void CheckRounds() { FailIf(rounds_.FindOverdue()); }
  // An operator asked for another length, and may have got it; or for an end at once.
  void OnLengthAsked(int64_t rounds) { lengths_.insert(rounds); }
  void OnStopAsked() { stop_asked_ = true; }
  // Some worker has a newer version than the folder: were it all that the coordinator has, it would be behind.
  bool IsBehind(FileSystem* files, const std::string& folder) const;
  // The worker has a consensus of this generation, of whatever version.
  bool Holds(const std::string& worker) const { return reached_.contains(worker); }
  // The coordinator has nothing but that from now on: no round is published anew before an operator has decided, and
  // what comes then is another generation of the consensus.
  void OnFolderLost() { lost_ = true; }
  bool lost() const { return lost_; }
  // The run has ended and nobody is left.
  void OnFinished(FileSystem* files, const std::string& folder);

  bool failed() const { return failure_.has_value(); }
  const std::string& failure() const { return *failure_; }
  // The last notes, oldest first.
  const std::deque<std::string>& notes() const { return notes_; }
  uint64_t deltas() const { return verified_; }
  uint64_t merged() const { return merged_; }
  int64_t rounds_published() const;
  bool has_end() const { return !end_.empty(); }

 private:
  using Place = std::pair<int, int64_t>;               // Fragment, round.
  using Name = std::tuple<std::string, int, int64_t>;  // Worker, fragment, round.
  struct Sent {
    double weight = 0;
    std::string bytes;
  };
  // The messages of a global delta: chunks, settled list, commit.
  struct Delta {
    std::vector<std::string> chunks;
    std::string settled;
    std::string commit;
  };
  struct Fragment {
    NaiveConsensus consensus;                // With every published round.
    std::map<int64_t, std::string> digests;  // By version.
    std::vector<float> residual;             // Of the downlink, while it is known.
  };

  void Require(bool holds, const std::string& rule) {
    if (!holds) Fail(rule);
  }
  void FailIf(const std::optional<std::string>& broken) {
    if (broken) Fail(*broken);
  }
  void CheckRate(const std::string& worker, const v1::GlobalDeltaCommit& commit);
  void Verify(const Place& place, const Delta& delta);
  void Forget(int64_t before);
  void VerifyLine(const Place& place, const v1::SettledContribution& line);
  std::vector<float> NaiveAverage(const Place& place, const v1::SettledList& settled);
  std::string NaivePayload(const Place& place, std::vector<float> average);
  void VerifyEnd(const v1::EndRecord& end);
  void Settle(const v1::SettledContribution& line);
  std::string DigestAt(int fragment, int64_t version) const;
  static std::string NameOf(const Name& name);
  // auditor_generation.cc
  void StartGeneration(const FolderScan& scan);
  void TakeBase(const FolderScan::Snapshot& snapshot);
  // What the coordinator has found it publishes, and says nothing more of it.
  void TakeRecovered(const FolderScan& scan);

  const RunConfig config_;
  const EventLoop& loop_;
  const RoundingRule rounding_;
  std::vector<Fragment> fragments_;
  bool residual_known_ = true;
  const std::vector<FragmentFacts> facts_;
  uint32_t generation_ = 0;
  bool lost_ = false;
  std::vector<std::set<std::pair<int64_t, std::string>>> earlier_;  // By fragment: versions of earlier generations.
  std::map<std::string, uint32_t> joined_;                          // By worker, the generation of what it holds.
  std::map<std::string, std::map<int, int64_t>> reached_;           // By worker and fragment, the version.
  RoundWatch rounds_;

  std::map<std::pair<Name, std::string>, Sent> sent_;  // By name and digest.
  std::map<std::string, uint64_t> admitted_;           // In this life of the coordinator.
  std::set<Name> stored_;                              // Acknowledged in this life, not settled.
  std::map<Name, Place> settled_;                      // Where.
  std::map<Place, Delta> journaled_;                   // As it was written last.
  std::map<Place, Delta> published_;
  std::set<Place> given_;                        // Whole, to somebody.
  std::map<std::string, v1::RunSettings> told_;  // By worker, as it was told last.
  std::set<int64_t> lengths_;                    // That the run may have.
  bool stop_asked_ = false;
  std::string end_;  // As journaled, serialised.
  bool end_given_ = false;

  uint64_t verified_ = 0;
  uint64_t merged_ = 0;
  std::deque<std::string> notes_;
  std::optional<std::string> failure_;
};

}  // namespace diloco::sim
