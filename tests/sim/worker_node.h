// A worker's process in a simulated cluster: the product's control core, sync core and training loop on simulated
// threads, over simulated streams. What RunWorker does between them stands here once more, without its waits.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "tests/sim/network.h"
#include "tests/sim/process.h"
#include "tests/sim/service.h"
#include "tests/sim/witness.h"
#include "tests/sim/worker_disk.h"
#include "tests/worker/loop/quadratic_trainer.h"
#include "worker/loop/training_loop.h"
#include "worker/sync/control_core.h"
#include "worker/sync/exchange.h"
#include "worker/sync/sync_core.h"

namespace diloco::sim {

class WorkerNode final : public Process, private SyncNetwork, private ControlNetwork {
 public:
  struct Options {
    std::string id;
    QuadraticTrainer::Options trainer;
    absl::Duration step_time = absl::Milliseconds(50);
    absl::Duration read_time;  // Of a message of a download: a slow reader.
    uint64_t chunk_bytes = 64;
    int64_t checkpoint_every = 0;                             // Rounds; 0: none are made.
    absl::Duration checkpoint_time = absl::Milliseconds(20);  // Of writing one, at most.
  };
  struct Parts {
    int heap = kHeapOfFirstWorker;
    EventLoop* loop = nullptr;
    Random* random = nullptr;
    Link* link = nullptr;
    CoordinatorNode* coordinator = nullptr;
    Service* service = nullptr;
    Witness* witness = nullptr;
  };

  WorkerNode(Options options, const Parts& parts);
  ~WorkerNode() override;

  void Boot();
  // Killed, or with a power cut. `silently`: the coordinator finds out by itself.
  void Die(bool silently, bool power_cut = false);
  // As by SIGTERM: it makes a last checkpoint, if it makes any, and ends.
  void Suspend();
  // It dies at the nth change of its disk from now.
  void DieAtDisk(uint64_t nth, bool power_cut);
  WorkerDisk& disk() { return disk_; }
  // Told when the process has ended, by itself or not.
  void SetOnDown(std::function<void()> on_down) { on_down_ = std::move(on_down); }
  // To be called when the coordinator takes calls again: streams that wait for it connect.
  void CoordinatorIsUp();
  void SetReadTime(absl::Duration time) { options_.read_time = time; }

  // Trained to the end, and left.
  bool done() const { return done_; }
  const std::string& id() const { return options_.id; }
  // Why the last life ended by itself.
  const absl::Status& ended_with() const { return ended_with_; }
  uint64_t incarnation() const { return incarnation_; }
  // One line: what it is doing.
  std::string Describe() const;

 private:
  struct Life;  // What a process holds in memory.
  class Checkpoints;

  template <typename Request, typename Response>
  void Call(void (Driver::*method)(Request, Reply<Response>), Request request,
            std::function<void(absl::StatusOr<Response>)> done);
  std::shared_ptr<Stream> OpenStream();
  // Runs `connect` in the coordinator's process once that is reached, as a call does that waits until it is ready.
  void Connect(std::function<void(const std::shared_ptr<Stream>&)> connect);

  // From joining to leaving.
  void Introduce();
  void JoinRun(const v1::JoinRequest& join);
  void BecomeMember(const v1::JoinResponse& joined);
  void SeedRun();
  // `failed` hears how the call ended, if not with an answer.
  void SendSeed(const v1::SeedRequest& request, const std::string& bytes,
                std::function<void(const absl::Status&)> failed);
  void GiveConsensus();
  v1::SeedRequest SeedIdentity() const;
  void FollowDirective();
  void StartSync();
  void BeginTraining();
  void TrainingTurn();
  void WakeTraining();
  void LeaveRun();
  void Exit(const absl::Status& status);

  // worker_checkpoints.cc
  void OpenFolder();
  absl::Status LoadCheckpoint();
  void EndTraining(const absl::Status& status);
  void FinishSuspension(const absl::Status& status);
  void DieOfDisk();

  // The two threads.
  void HandleControl(ControlEvent event);
  void AfterControl();
  void HandleSync(SyncEvent event);
  void AfterSync();

  // ControlNetwork.
  void OpenSession(uint64_t call) override;
  void Send(uint64_t call, v1::SessionRequest request) override;
  void CancelSession(uint64_t call) override;
  void Join(v1::JoinRequest request) override;
  // SyncNetwork.
  void OpenUpload(int stream, uint64_t call) override;
  void CancelUpload(int stream, uint64_t call) override;
  void Send(int stream, v1::UploadRequest request) override;
  void SendOn(int stream, v1::UploadRequest request);
  void FetchSnapshot(uint64_t call, v1::FetchSnapshotRequest request) override;
  void OpenSubscription(uint64_t call, v1::SubscribeRequest request) override;
  void ReadNext(uint64_t call) override;
  void CancelDownload(uint64_t call) override;
  template <typename Item, typename Event, typename Request>
  void StartDownload(uint64_t call, const Request& request,
                     void (Service::*method)(const std::shared_ptr<Stream>&, Request, Service::Arrived<Item>));

  Options options_;
  Random& random_;
  Link& link_;
  CoordinatorNode& coordinator_;
  Service& service_;
  Witness& witness_;
  std::function<void()> on_down_;

  WorkerDisk disk_;
  bool dies_by_power_cut_ = false;  // Of its disk.
  uint64_t incarnation_ = 0;
  std::unique_ptr<Life> own_;
  std::vector<std::function<void()>> waiting_;  // For the coordinator.
  std::vector<std::weak_ptr<Stream>> streams_;
  bool done_ = false;
  absl::Status ended_with_;
};

}  // namespace diloco::sim
