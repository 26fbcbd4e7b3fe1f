// A worker of the tests: does the whole protocol against a Driver, with outer gradients that follow from its consensus,
// its name and the round alone, so that every run of the same workers ends the same. Keeps its own consensus, as an
// independent check of what is published: Apply is the real kernel, assembly of the bytes is not the driver's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/codec/codec.h"
#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "common/outer/consensus.h"
#include "coordinator/driver/driver.h"

namespace diloco {

class SimWorker {
 public:
  // `incarnation` != 0. `upload_chunk_bytes` small, so that contributions take several chunks.
  SimWorker(const RunConfig& config, std::string id, uint64_t incarnation, std::vector<TensorSpec> tensors);

  // A (new) coordinator; what the worker holds it keeps. Disconnect before the driver goes.
  void Connect(Driver* driver);
  void Disconnect();

  // Handles what has arrived and does what can be done now. False: nothing.
  bool Act();
  // Waits for something to arrive, at most one second.
  void Wait();

  bool joined() const { return joined_; }
  // The coordinator told it to leave.
  bool done() const { return done_; }
  int64_t version() const;
  // Of the run, as far as the worker was told.
  int64_t rounds() const { return rounds_; }
  const std::vector<Consensus>& consensus() const { return consensus_; }
  // As the newest end record says.
  const std::optional<v1::EndRecord>& end() const { return end_; }
  // Commits received, in order, by all connections together.
  const std::vector<v1::GlobalDeltaCommit>& commits() const { return commits_; }
  // Settled as merged: how often each of its contributions was.
  const std::map<std::pair<int, int64_t>, int>& merged() const { return merged_; }
  const std::string& id() const { return id_; }

  // The outer gradient of round `round`; shapes: [elements of the fragment].
  std::vector<float> OuterGradient(int fragment, int64_t round) const;
  // Initial parameters of the whole model.
  static std::vector<float> InitialParameters(int64_t elements);
  double weight() const { return weight_; }
  void set_weight(double weight) { weight_ = weight; }

 private:
  struct Contribution {
    std::string encoded;
    Digest digest;
    bool sent = false;  // On this connection.
  };
  struct Inbox {
    Mutex mutex;
    CondVar arrived;
    std::vector<std::function<void()>> events ABSL_GUARDED_BY(mutex);
    void Add(std::function<void()> event);
  };

  // Wraps a reply so that it is handled by Act(), and only while this connection lasts.
  template <typename Response>
  Reply<Response> Later(std::function<void(absl::StatusOr<Response>)> handle);

  void Join();
  void OpenSession();
  void Heartbeat(bool leaving);
  void Seed();
  void FetchSnapshot();
  void Subscribe();
  void Contribute();
  void Send(int fragment, int64_t round);
  void Receive();
  void OnMessage(const std::string& bytes);
  void OnCommit(const v1::GlobalDeltaCommit& commit);

  const RunConfig config_;
  const std::string id_;
  const uint64_t incarnation_;
  const std::vector<TensorSpec> tensors_;
  const Layout layout_;
  const Codec* const uplink_;
  const Codec* const downlink_;
  double weight_ = 1;

  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  Driver* driver_ = nullptr;
  uint64_t connection_ = 0;  // Counts; events of older ones are dropped.

  // Of this connection.
  bool joining_ = false;
  bool joined_ = false;
  bool seeding_ = false;
  bool fetching_ = false;
  bool leaving_sent_ = false;
  std::optional<Driver::SessionToken> session_;
  v1::Directive directive_;
  std::shared_ptr<DeltaQueue> queue_;
  std::map<int, std::string> partial_;  // Encoded bytes of the delta that is arriving, by fragment.
  std::map<int, v1::SettledList> settled_;

  // Kept.
  std::vector<Consensus> consensus_;                           // Empty before the snapshot.
  std::vector<std::map<int64_t, Digest>> digests_;             // By fragment and version.
  std::map<std::pair<int, int64_t>, Contribution> unsettled_;  // By (fragment, round).
  int64_t next_contribution_ = 0;
  int64_t rounds_;
  std::map<std::pair<int, int64_t>, int> merged_;
  std::vector<v1::GlobalDeltaCommit> commits_;
  std::optional<v1::EndRecord> end_;
  bool done_ = false;
};

}  // namespace diloco
