// A coordinator for the worker's tests: everything in memory, one lock, and faults on demand. Written apart from the
// real one, after the wire contract.
#pragma once

#include <grpcpp/server.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/codec/codec.h"
#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "common/outer/consensus.h"
#include "diloco/v1/worker.grpc.pb.h"

namespace diloco {

class FakeCoordinator final : public v1::WorkerService::Service {
 public:
  struct Faults {
    int damaged_uploads = 0;          // So many chunks count as damaged: not held.
    bool damaged_are_silent = false;  // They get no answer either.
    int damaged_downloads = 0;        // So many published chunks go out with a wrong checksum.
    bool id_in_use = false;
    bool wrong_consensus_digest = false;
    bool gone_when_left = false;  // The session breaks in place of the word that a worker may leave.
    int too_early = 0;            // So many uploads are told to come later.
    int silent_describes = 0;     // So many calls of DescribeRun get no answer.
  };

  explicit FakeCoordinator(std::string yaml);
  ~FakeCoordinator() override;

  std::string address() const;
  const RunConfig& config() const { return config_; }

  // Gone, and back on the same port; `lose_staged`: what was not committed is lost, as after a kill.
  void Stop();
  void Start(bool lose_staged);

  void SetFaults(const Faults& faults);
  // No round commits while it holds.
  void Hold(bool hold);
  // Commits the oldest open round of every fragment with what is there.
  void CommitNow();
  // The next subscription or the one that is open is told to take the snapshot, which is the newest state.
  void ForceResync();

  // ---- What happened ----
  int64_t version() const;  // Of all fragments.
  std::vector<Digest> Digests() const;
  std::vector<float> ConsensusParameters() const;
  std::vector<v1::Evaluation> evaluations() const;
  std::vector<v1::SessionRequest> heartbeats() const;
  int stored(const std::string& worker, int64_t round) const;  // Fragments stored whole.
  // Of a contribution; 0: none has arrived.
  double weight(const std::string& worker, uint32_t fragment, int64_t round) const;
  int repeated_chunks() const;  // Chunks that were held already.
  // Waits until `condition` holds; false after a minute.
  bool Await(const std::function<bool(const FakeCoordinator&)>& condition) const;

  grpc::Status DescribeRun(grpc::ServerContext*, const v1::DescribeRunRequest*, v1::DescribeRunResponse*) override;
  grpc::Status Join(grpc::ServerContext*, const v1::JoinRequest*, v1::JoinResponse*) override;
  grpc::Status Session(grpc::ServerContext*,
                       grpc::ServerReaderWriter<v1::SessionResponse, v1::SessionRequest>*) override;
  grpc::Status Upload(grpc::ServerContext*, grpc::ServerReaderWriter<v1::UploadResponse, v1::UploadRequest>*) override;
  grpc::Status Subscribe(grpc::ServerContext*, const v1::SubscribeRequest*,
                         grpc::ServerWriter<v1::SubscribeResponse>*) override;
  grpc::Status FetchSnapshot(grpc::ServerContext*, const v1::FetchSnapshotRequest*,
                             grpc::ServerWriter<v1::FetchSnapshotResponse>*) override;
  grpc::Status Seed(grpc::ServerContext*, grpc::ServerReader<v1::SeedRequest>*, v1::SeedResponse*) override;

 private:
  using Key = std::tuple<std::string, uint32_t, int64_t>;  // Worker, fragment, round.
  struct Staged {
    std::map<uint32_t, std::string> chunks;
    std::string encoded;  // Once whole.
    Digest digest;
    double weight = 0;
    bool settled = false;
  };

  v1::Directive MakeDirective(const std::string& worker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<v1::UploadResponse> Take(const v1::UploadRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MaybeCommit(bool now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Commit(uint32_t fragment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Ready(uint32_t fragment) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::EndRecord MakeEnd() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string yaml_;
  const RunConfig config_;
  const Codec& uplink_;
  const Codec& downlink_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;

  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool hold_ ABSL_GUARDED_BY(mutex_) = false;
  int resyncs_ ABSL_GUARDED_BY(mutex_) = 0;
  Faults faults_ ABSL_GUARDED_BY(mutex_);
  std::optional<Layout> layout_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> members_ ABSL_GUARDED_BY(mutex_);
  std::vector<Consensus> consensus_ ABSL_GUARDED_BY(mutex_);
  StepScalars scalars_ ABSL_GUARDED_BY(mutex_);  // Of the newest global delta.
  std::map<Key, Staged> staged_ ABSL_GUARDED_BY(mutex_);
  std::set<Key> abstained_ ABSL_GUARDED_BY(mutex_);
  // By fragment, by round: chunks, list, commit.
  std::vector<std::vector<std::vector<v1::SubscribeResponse>>> published_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Evaluation> evaluations_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::SessionRequest> heartbeats_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> left_ ABSL_GUARDED_BY(mutex_);
  int repeated_chunks_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace diloco
