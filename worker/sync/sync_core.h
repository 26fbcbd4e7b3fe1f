// PURE apart from the Exchange it publishes to: everything that the sync thread decides. Outer gradients, messages and
// time come in as events; the network is behind an interface. Not thread-safe: the sync thread owns it.
//
//   outer gradient -> encode, keep, upload until settled
//   settings       -> other rates, another length: told the training thread
//   snapshot       -> consensus of each fragment
//   global deltas  -> assemble, check, hold back, apply as the fragment's next stop allows, stage for it
//   end record     -> apply everything, check the final digests
//   training stops -> (drained) the worker is through once every contribution of its own is settled
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"

#include "common/base/clock.h"
#include "common/config/run_config.h"
#include "common/config/run_settings.h"
#include "common/layout/layout.h"
#include "diloco/v1/worker.pb.h"
#include "worker/client/delta_assembler.h"
#include "worker/client/download_machine.h"
#include "worker/client/snapshot_assembler.h"
#include "worker/client/upload_machine.h"
#include "worker/client/worker_status.h"
#include "worker/outer/schedule.h"
#include "worker/sync/contribution_store.h"
#include "worker/sync/exchange.h"
#include "worker/sync/fragment_sync.h"
#include "worker/sync/sync_state.h"

namespace diloco {

// ---- Events ----

// From the training thread, a fragment's rounds ascending: the outer gradient of a round, [fragment's count], lambda as
// it was staged, and the weight in the average.
struct OuterGradientTaken {
  int fragment = 0;
  int64_t round = 0;
  std::vector<float> outer_gradient;
  float lambda = 0;
  double weight = 1;
};
// There is none for this round.
struct RoundAbstained {
  int fragment = 0;
  int64_t round = 0;
  std::string reason;
};
// The fragment's next stop that sets is in `round`; kNoRound: there is none. The first one begins training.
struct TrainingAdvanced {
  int fragment = 0;
  int64_t round = 0;
};
// Training takes no further steps, because the worker is to drain: no fragment contributes to a round after this one.
struct TrainingStopped {
  int64_t last_round = -1;
};
// Asks for a copy of the state after everything that was handed over before. `take` is called by the sync thread, and
// not at all when the worker cannot go on. Training has begun.
struct StateWanted {
  std::function<void(SyncState)> take;
};
// The coordinator lost its consensus and asks for this worker's.
struct ConsensusWanted {};
// From the network.
struct UploadReplied {
  int stream = 0;
  uint64_t call = 0;
  v1::UploadResponse response;
};
struct SnapshotItemRead {
  uint64_t call = 0;
  v1::FetchSnapshotResponse item;
};
struct SubscriptionItemRead {
  uint64_t call = 0;
  v1::SubscribeResponse item;
};
struct DownloadFinished {
  uint64_t call = 0;
  absl::Status status;
};

using SyncEvent =
    std::variant<OuterGradientTaken, RoundAbstained, TrainingAdvanced, TrainingStopped, StateWanted, ConsensusWanted,
                 UploadReplied, UploadWritten, UploadClosed, SnapshotItemRead, SubscriptionItemRead, DownloadFinished>;

// What the sync thread asks of the network. Each call answers with events. At most one Send a stream is outstanding.
class SyncNetwork {
 public:
  virtual ~SyncNetwork() = default;
  virtual void OpenUpload(int stream, uint64_t call) = 0;
  virtual void CancelUpload(int stream, uint64_t call) = 0;
  virtual void Send(int stream, v1::UploadRequest request) = 0;
  virtual void FetchSnapshot(uint64_t call, v1::FetchSnapshotRequest request) = 0;
  virtual void OpenSubscription(uint64_t call, v1::SubscribeRequest request) = 0;
  // The last message of the download has been dealt with; the next may be read.
  virtual void ReadNext(uint64_t call) = 0;
  virtual void CancelDownload(uint64_t call) = 0;
};

// Version of a fragment's consensus and its digest, each time it changes.
using ConsensusObserver = std::function<void(int fragment, int64_t version, const Digest& digest)>;

// The consensus as a worker holds it, all that it has received applied. `version` is the largest of the fragments'.
struct FullConsensus {
  int64_t version = 0;
  std::optional<StepScalars> scalars;  // Of the newest global delta; absent at version 0.
  std::vector<Consensus> fragments;
};

class SyncCore {
 public:
  struct Options {
    std::string worker_id;
    uint64_t incarnation = 0;
    int64_t first_round = 0;            // From JoinResponse.
    uint32_t generation = 0;            // From JoinResponse.
    int64_t evaluated_version = 0;      // Newest version that needs no evaluation any more.
    uint64_t chunk_bytes = 0;           // At most; kMaxChunkBytes but for tests.
    UploadMachine::Options upload;      // streams and bytes_per_second are the run's.
    DownloadMachine::Options download;  // fragments are the layout's.
    ConsensusObserver on_consensus;     // May be empty.
    std::function<void()> report_soon;  // Others wait for what the status board says now. May be empty.
    std::function<void(FullConsensus)> on_consensus_wanted;  // The answer to ConsensusWanted. May be empty.
  };

  // The pointers outlive the object.
  SyncCore(Options options, const RunConfig* config, const Layout* layout, Exchange* exchange, StatusBoard* board,
           SyncNetwork* network);
  // Before anything else, if the worker goes on from a checkpoint of the same run and layout. A stop of
  // kBeforeTraining: it begins a round anew.
  void Resume(SyncState state, MonotonicTime now);

  // Errors: the worker cannot go on; the exchange has been told.
  absl::Status Handle(SyncEvent event, MonotonicTime now);
  // To be called when next_wake() has come.
  absl::Status HandleTime(MonotonicTime now);
  std::optional<MonotonicTime> next_wake() const;

 private:
  absl::Status On(OuterGradientTaken event);
  absl::Status On(const RoundAbstained& event);
  absl::Status On(const TrainingAdvanced& event);
  absl::Status On(const TrainingStopped& event);
  absl::Status On(const StateWanted& event);
  absl::Status On(const ConsensusWanted& event);
  absl::Status On(const UploadReplied& event);
  absl::Status On(const UploadWritten& event);
  absl::Status On(const UploadClosed& event);
  absl::Status On(const SnapshotItemRead& event);
  absl::Status On(const SubscriptionItemRead& event);
  absl::Status On(const DownloadFinished& event);

  FragmentSync::Options FragmentOptions(int fragment, const StepScalars& next_scalars) const;
  SyncState Save() const;
  void Offer(int64_t round, int fragment, const ContributionStore::Contribution& contribution);
  absl::Status TakeSettings(const v1::RunSettings& settings);
  absl::Status TakeSnapshot(uint64_t call);
  void Adopt(Snapshot snapshot);
  absl::Status TakeCommit(uint64_t call, const v1::GlobalDeltaCommit& commit);
  absl::Status TakeEnd(uint64_t call, const v1::EndRecord& end);
  // Asks again for what was damaged, or gives up on what asking again would not change.
  absl::Status Damaged(uint64_t call, const absl::Status& status);
  void SettleUpTo(int64_t round, int fragment, ContributionFate of_round, ContributionFate of_older);
  void SettleOwn(const v1::SettledContribution& settled);

  absl::Status ApplyAllowed();
  int64_t Allowed(int fragment) const;
  int64_t Published() const;
  std::optional<int64_t> CommonVersion() const;
  void MaybeCopyConsensus(bool at_end);
  void Announce(int fragment);
  void PublishStops();
  void TellObserver();
  absl::Status MaybeFinish();
  void ReportStatus();

  // Steps of the machines, and their effects.
  void Upload(const UploadEvent& event);
  void Carry(const OpenUpload& effect);
  void Carry(const CancelUpload& effect);
  void Carry(const SendQuery& effect);
  void Carry(const SendChunk& effect);
  void Download(const DownloadEvent& event);
  void Carry(const FetchSnapshot& effect);
  void Carry(const OpenSubscription& effect);
  void Carry(const CancelDownload& effect);

  const Options options_;
  const RunConfig& config_;
  const Layout& layout_;
  Exchange* const exchange_;
  StatusBoard* const board_;
  SyncNetwork* const network_;

  RunSettings settings_;
  Schedule schedule_;
  const Codec* downlink_;
  ContributionStore store_;
  UploadMachine upload_;
  DownloadMachine download_;
  std::vector<DeltaAssembler> assemblers_;
  std::optional<SnapshotAssembler> snapshot_;
  std::vector<FragmentSync> fragments_;  // Empty before the first snapshot.
  // Of the newest global delta received, and its version.
  std::optional<StepScalars> newest_scalars_;
  int64_t scalars_version_ = 0;

  std::vector<int64_t> stops_;  // By fragment, the round whose stop the training thread takes next.
  std::set<int> unstaged_;      // Fragments that changed since they were staged.
  struct Announcement {
    int fragment = 0;
    int64_t version = 0;
    Digest digest;
  };
  std::vector<Announcement> announcements_;  // For on_consensus, once what they name is staged.
  std::optional<v1::EndRecord> end_;
  bool stopped_ = false;  // Training, to drain.
  bool finished_ = false;
  int64_t copied_version_ = 0;
  uint64_t uploaded_bytes_ = 0;
  uint64_t downloaded_bytes_ = 0;
  std::vector<std::optional<MonotonicTime>> arriving_since_;  // By fragment, of the global delta on its way.
  int64_t downloads_ = 0;
  absl::Duration download_time_;
  std::vector<RoundAbstention> abstentions_;
  MonotonicTime now_;
};

}  // namespace diloco
