// A coordinator that lost its disk, or was given an older copy of it, in mid-run.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/coordinator/driver/hand_worker.h"
#include "tests/coordinator/driver/sim_cluster.h"
#include "tests/support/temp_folder.h"

namespace diloco {

inline constexpr int kRounds = 6;

inline std::string LostDiskYaml() {
  return RunYaml(2, kRounds, "fp32", "fp32", "rounds: {snapshot_every: 2, quorum: 1}\n");
}

inline v1::HeldConsensus Held(uint32_t generation, std::vector<int64_t> versions) {
  v1::HeldConsensus held;
  held.set_generation(generation);
  held.mutable_versions()->Assign(versions.begin(), versions.end());
  return held;
}

class LostDiskTest : public ::testing::Test {
 protected:
  // A run of two workers, as far as `version`.
  LostDiskTest() : cluster_(LostDiskYaml(), 2), coordinator_(cluster_.coordinator) {
    cluster_.Start();
    RunTo(2);
    std::filesystem::copy(coordinator_.data(), copy_.path(), std::filesystem::copy_options::recursive);
    RunTo(4);
    for (const auto& worker : cluster_.workers) worker->Disconnect();
    coordinator_.Crash();
  }
  void RunTo(int64_t version) {
    while (cluster_.workers[0]->version() < version) {
      ASSERT_TRUE(cluster_.Turn());
    }
  }
  void StartEmpty() {
    for (const auto& entry : std::filesystem::directory_iterator(coordinator_.data())) {
      std::filesystem::remove_all(entry.path());
    }
    ASSERT_TRUE(coordinator_.Start().ok());
  }
  void StartWithTheCopy() {
    StartEmpty();
    coordinator_.Crash();
    std::filesystem::copy(copy_.path(), coordinator_.data(),
                          std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
    ASSERT_TRUE(coordinator_.Start().ok());
  }
  // The driver has asked for a new start: the next process.
  void StartAgain() {
    EXPECT_FALSE(coordinator_.observer.start_again.empty());
    coordinator_.observer.start_again.clear();
    coordinator_.Crash();
    const absl::Status started = coordinator_.Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  absl::StatusOr<v1::JoinResponse> Join(const HandWorker& worker, const std::optional<v1::HeldConsensus>& held) {
    v1::JoinRequest request = worker.JoinRequest();
    if (held) *request.mutable_held() = *held;
    return coordinator_.Call(&Driver::Join, request);
  }
  v1::GetStatusResponse Status() { return *coordinator_.Call(&Driver::GetStatus, v1::GetStatusRequest()); }
  absl::StatusOr<v1::RecoverConsensusResponse> Recover(const std::string& worker, bool force = false,
                                                       bool dry_run = false) {
    v1::RecoverConsensusRequest request;
    request.set_worker_id(worker);
    request.set_force(force);
    request.set_dry_run(dry_run);
    return coordinator_.Call(&Driver::RecoverConsensus, request);
  }
  absl::StatusOr<v1::RecoverConsensusResponse> Discard() {
    v1::RecoverConsensusRequest request;
    request.set_discard_workers(true);
    return coordinator_.Call(&Driver::RecoverConsensus, request);
  }

  void Evaluate(HandWorker& worker, int64_t version) {
    const HandWorker::Session session = worker.OpenSession();
    v1::SessionRequest heartbeat = worker.Heartbeat();
    v1::Evaluation* evaluation = heartbeat.add_evaluations();
    evaluation->set_version(version);
    evaluation->set_loss(1.0);
    evaluation->set_tokens(1);
    worker.Send(session, heartbeat);
  }

  // The consensus that the workers had when the coordinator went, in the order of snapshots.
  std::vector<float> Consensus() const {
    std::vector<float> values;
    for (const diloco::Consensus& fragment : cluster_.workers[0]->consensus()) {
      values.insert(values.end(), fragment.parameters().begin(), fragment.parameters().end());
      for (const std::vector<float>& state : fragment.state()) values.insert(values.end(), state.begin(), state.end());
    }
    return values;
  }
  v1::SeedRequest ConsensusRequest(const HandWorker& worker, int64_t version) const {
    v1::SeedRequest request = worker.SeedRequest(Consensus());
    request.set_consensus(true);
    request.set_version(version);
    *request.mutable_scalars() = cluster_.workers[0]->commits().back().scalars();
    return request;
  }

  testing::TempFolder copy_;
  SimCluster cluster_;
  Coordinator& coordinator_;
};

}  // namespace diloco
