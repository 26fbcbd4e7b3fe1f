// Whole runs through the driver, in one thread: what comes out, and what people see of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_format.h"

#include "common/safetensors/safetensors_reader.h"
#include "tests/coordinator/driver/sim_cluster.h"

namespace diloco {
namespace {

constexpr int kElements = 11;
constexpr int kFirstElements = 5;  // Of fragment 0.

// The same run in double precision, from the formulas: weighted average, Nesterov step. Nothing of the service.
std::vector<double> NaiveRun(int workers, int rounds, const std::vector<double>& weights, double rate,
                             double momentum) {
  std::vector<double> s(kElements);
  std::vector<double> b(kElements, 0.0);
  for (int i = 0; i < kElements; ++i) {
    s[static_cast<size_t>(i)] = 0.25 * (i % 7 - 3);
  }
  double total = 0;
  for (const double weight : weights) {
    total += weight;
  }
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> average(kElements, 0.0);
    for (int w = 0; w < workers; ++w) {
      for (int i = 0; i < kElements; ++i) {
        const int local = i < kFirstElements ? i : i - kFirstElements;
        const int noise = (local * 31 + round * 17 + ('0' + w) * 7) % 11 - 5;
        const auto at = static_cast<size_t>(i);
        average[at] += weights[static_cast<size_t>(w)] / total * (0.25 * s[at] + 0.0625 * noise);
      }
    }
    for (size_t i = 0; i < kElements; ++i) {
      b[i] = momentum * b[i] + average[i];
      s[i] -= rate * (average[i] + momentum * b[i]);
    }
  }
  return s;
}

TEST(DriverRunTest, ThreeWorkersTwoFragmentsMatchTheFormulas) {
  SimCluster cluster(RunYaml(3, 6, "fp32", "fp32", "outer: {rate: 0.5, momentum: 0.8}\n"), 3);
  cluster.workers[1]->set_weight(2);
  cluster.workers[2]->set_weight(5);
  cluster.Start();
  cluster.Run();

  const std::vector<double> expected = NaiveRun(3, 6, {1, 2, 5}, 0.5, 0.8);
  for (const auto& worker : cluster.workers) {
    ASSERT_EQ(worker->version(), 6);
    size_t at = 0;
    for (const Consensus& fragment : worker->consensus()) {
      for (const float value : fragment.parameters()) {
        EXPECT_NEAR(value, expected[at++], 2e-6);
      }
    }
    EXPECT_EQ(at, expected.size());
    EXPECT_EQ(worker->commits().size(), 12U);
    for (const auto& [key, count] : worker->merged()) {
      EXPECT_EQ(count, 1) << "fragment " << key.first << " round " << key.second;
    }
    EXPECT_EQ(worker->merged().size(), 12U);
    EXPECT_EQ(worker->commits().front().scalars().participating_weight(), 8);
    EXPECT_TRUE(worker->done());
  }
  EXPECT_EQ(cluster.coordinator.observer.merged_total, 36);
  EXPECT_EQ(cluster.coordinator.observer.dropped_total, 0);
}

// The coordinator computes rate, decay, corrections and clipping; here in double precision from the papers' formulas.
TEST(DriverRunTest, DataParallelStepsWithAdamW) {
  constexpr int kRounds = 6;
  SimCluster cluster(
      absl::StrFormat("run: {id: test, workers: 2, rounds: %d}\nmethod: data-parallel\n"
                      "inner: {rate: 0.125, final_ratio: 0, warmup_steps: 2, clip: 0.25, weight_decay: 0.5}\n"
                      "wire: {uplink: fp32, downlink: fp32}\n",
                      kRounds),
      2);
  cluster.Start();
  cluster.Run();
  std::vector<double> s(kElements), m(kElements), v(kElements);
  for (size_t i = 0; i < kElements; ++i) s[i] = 0.25 * (static_cast<int>(i % 7) - 3);
  int clipped = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> average(kElements);
    double square = 0;
    for (size_t i = 0; i < kElements; ++i) {
      for (const int w : {0, 1}) {
        const int noise = (static_cast<int>(i) * 31 + round * 17 + ('0' + w) * 7) % 11 - 5;
        average[i] += (0.25 * s[i] + 0.0625 * noise) / 2;
      }
      square += average[i] * average[i];
    }
    const double scale = std::min(1.0, 0.25 / std::sqrt(square));
    clipped += scale < 1 ? 1 : 0;
    // Warm-up to step 2, then half a cosine down to 0 at the last step, 5.
    const double rate = round <= 2 ? 0.125 * (round + 1) / 3 : 0.125 * 0.5 * (1 + std::cos(M_PI * (round - 2) / 3));
    for (size_t i = 0; i < kElements; ++i) {
      const double g = scale * average[i];
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.99 * v[i] + 0.01 * g * g;
      if (i >= kFirstElements) s[i] -= rate * 0.5 * s[i];  // Tensor b decays, a does not.
      const double root = std::sqrt(v[i] / (1 - std::pow(0.99, round + 1)));
      s[i] -= rate * m[i] / (1 - std::pow(0.9, round + 1)) / (root + 1e-8);
    }
  }
  EXPECT_GT(clipped, 0);
  for (const auto& worker : cluster.workers) {
    ASSERT_TRUE(worker->done());
    ASSERT_EQ(worker->consensus().size(), 1U);
    for (size_t i = 0; i < kElements; ++i) {
      EXPECT_NEAR(worker->consensus()[0].parameters()[i], s[i], 5e-6) << i;
    }
  }
}

// Every worker checks each commit record's digest of the consensus against its own, and the end record's.
TEST(DriverRunTest, EveryCodecGivesEveryoneTheSameConsensus) {
  for (const auto& [uplink, downlink] :
       std::vector<std::pair<std::string, std::string>>{{"e3m0", "int8"}, {"int4", "bf16"}, {"bf16", "e3m0"}}) {
    SimCluster cluster(RunYaml(3, 5, uplink, downlink), 3);
    cluster.Start();
    cluster.Run();
    for (const auto& worker : cluster.workers) {
      ASSERT_TRUE(worker->end().has_value()) << uplink;
      EXPECT_TRUE(worker->done());
      for (size_t fragment = 0; fragment < 2; ++fragment) {
        EXPECT_EQ(worker->consensus()[fragment].ComputeDigest(),
                  cluster.workers[0]->consensus()[fragment].ComputeDigest());
      }
      // Blocking rounds: nothing but the consensus before the round is known when it commits.
      EXPECT_EQ(worker->commits().back().consensus_version(), 4);
    }
  }
}

TEST(DriverRunTest, EndsWithCheckpointAndLeavingWorkers) {
  SimCluster cluster(RunYaml(2, 3, "fp32", "fp32", "rounds: {snapshot_every: 2}\n"), 2);
  cluster.Start();
  cluster.Run();
  const RecordingObserver& seen = cluster.coordinator.observer;
  EXPECT_THAT(seen.phases, ::testing::ElementsAre(RunPhase::kTraining, RunPhase::kEnded));
  EXPECT_THAT(seen.snapshots, ::testing::ElementsAre(0, 2, 3));
  EXPECT_THAT(seen.checkpoints, ::testing::ElementsAre(3));
  EXPECT_TRUE(seen.finished);

  EXPECT_EQ(std::filesystem::path(seen.checkpoint_path).filename(), "round-00000003");
  const auto file = SafetensorsReader::Open(seen.checkpoint_path + "/model.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->metadata().at("run_id"), "test");
  EXPECT_EQ(file->metadata().at("version"), "3");
  ASSERT_EQ(file->tensors().size(), 2U);
  EXPECT_THAT(file->tensors()[1].shape, ::testing::ElementsAre(2, 3));
  std::ifstream model(seen.checkpoint_path + "/model.safetensors");
  const std::string bytes((std::istreambuf_iterator<char>(model)), std::istreambuf_iterator<char>());
  const std::string data = bytes.substr(bytes.size() - 11 * sizeof(float));
  EXPECT_EQ(file->metadata().at("data_digest"), DigestOf(data).Hex());
  std::ifstream yaml(seen.checkpoint_path + "/run.yaml");
  const std::string text((std::istreambuf_iterator<char>(yaml)), std::istreambuf_iterator<char>());
  EXPECT_EQ(text, RunYaml(2, 3, "fp32", "fp32", "rounds: {snapshot_every: 2}\n"));
}

TEST(DriverRunTest, StatusFollowsTheRun) {
  SimCluster cluster(RunYaml(2, 2, "fp32", "fp32"), 1);
  cluster.Start();
  Coordinator& coordinator = cluster.coordinator;
  auto status = coordinator.Call(&Driver::GetStatus, v1::GetStatusRequest());
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->state(), v1::RUN_STATE_SEEDING);
  EXPECT_FALSE(status->reason().empty());
  EXPECT_EQ(status->parameters(), 0U);
  EXPECT_EQ(status->snapshot_version(), -1);

  cluster.Run();  // One of two workers: seeded, and waiting for the other.
  status = coordinator.Call(&Driver::GetStatus, v1::GetStatusRequest());
  EXPECT_EQ(status->state(), v1::RUN_STATE_WAITING_FOR_WORKERS);
  EXPECT_EQ(status->parameters(), 11U);
  EXPECT_EQ(status->fragments(), 2U);
  EXPECT_EQ(status->workers_alive(), 1U);
  EXPECT_EQ(status->workers_expected(), 2U);
  EXPECT_EQ(status->snapshot_version(), 0);

  cluster.AddWorker("w1");
  cluster.Run();
  coordinator.clock.Advance(absl::Seconds(3));
  status = coordinator.Call(&Driver::GetStatus, v1::GetStatusRequest());
  EXPECT_EQ(status->state(), v1::RUN_STATE_ENDED);
  EXPECT_EQ(status->rounds_committed(), 2);
  EXPECT_EQ(status->rounds_total(), 2);
  EXPECT_EQ(status->uptime().seconds(), 3);
  EXPECT_EQ(status->quorum(), 2U);
  EXPECT_EQ(status->checkpoint_path(), coordinator.observer.checkpoint_path);
  EXPECT_EQ(status->checkpoint_version(), 2);
  ASSERT_EQ(status->evaluations_size(), 1);
  EXPECT_EQ(status->evaluations(0).version(), 2);
  EXPECT_EQ(status->evaluations(0).worker_id(), "w0");
  EXPECT_EQ(status->received_bytes(), 2U * 2 * 11 * 4);  // Rounds, workers, elements, bytes.
  EXPECT_EQ(status->sent_bytes(), 2U * 2 * 11 * 4);

  v1::GetStatusRequest other;
  other.set_run_id("other");
  EXPECT_EQ(coordinator.Call(&Driver::GetStatus, other).status().code(), absl::StatusCode::kNotFound);
}

TEST(DriverRunTest, RoundsAndWorkersAreDescribed) {
  SimCluster cluster(RunYaml(2, 3, "fp32", "fp32"), 2);
  cluster.Start();
  cluster.Run();
  Coordinator& coordinator = cluster.coordinator;
  const auto list = coordinator.Call(&Driver::ListRounds, v1::ListRoundsRequest());
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->rounds_size(), 3);
  EXPECT_EQ(list->rounds(0).round(), 2);
  EXPECT_EQ(list->rounds(0).state(), v1::ROUND_STATE_COMMITTED);
  EXPECT_EQ(list->rounds(0).workers_present(), 2U);
  EXPECT_EQ(list->rounds(0).quorum(), 2U);
  EXPECT_EQ(list->rounds(0).merged(), 4U);  // Two fragments.
  EXPECT_EQ(list->rounds(0).fragments_committed(), 2U);
  EXPECT_EQ(list->rounds(0).fragments_total(), 2U);
  v1::ListRoundsRequest newest;
  newest.set_limit(1);
  EXPECT_EQ(coordinator.Call(&Driver::ListRounds, newest)->rounds_size(), 1);

  v1::DescribeRoundRequest request;
  request.set_round(1);
  const auto round = coordinator.Call(&Driver::DescribeRound, request);
  ASSERT_TRUE(round.ok());
  ASSERT_EQ(round->fragments_size(), 2);
  EXPECT_EQ(round->fragments(1).fragment(), 1U);
  EXPECT_EQ(round->fragments(1).settled_size(), 2);
  EXPECT_EQ(round->fragments(1).consensus_version(), 1);
  EXPECT_GT(round->fragments(1).average_norm(), 0);
  request.set_round(3);
  EXPECT_EQ(coordinator.Call(&Driver::DescribeRound, request).status().code(), absl::StatusCode::kNotFound);

  const auto workers = coordinator.Call(&Driver::ListWorkers, v1::ListWorkersRequest());
  ASSERT_TRUE(workers.ok());
  ASSERT_EQ(workers->workers_size(), 2);
  EXPECT_EQ(workers->workers(0).worker_id(), "w0");
  EXPECT_EQ(workers->workers(0).state(), v1::WORKER_STATE_LEFT);
  EXPECT_EQ(workers->workers(0).progress().version(), 3);
}

TEST(DriverRunTest, AnOpenRoundSaysWhatItWaitsFor) {
  SimCluster cluster(RunYaml(2, 3, "fp32", "fp32"), 2);
  cluster.Start();
  while (cluster.workers[1]->consensus().empty()) {
    ASSERT_TRUE(cluster.Turn());
  }
  // Only the first one goes on.
  for (int turn = 0; turn < 1000; ++turn) {
    cluster.coordinator.PumpOne();
    cluster.workers[0]->Act();
  }
  cluster.coordinator.clock.Advance(absl::Seconds(2));
  cluster.coordinator.Pump();
  v1::DescribeRoundRequest request;
  const auto round = cluster.coordinator.Call(&Driver::DescribeRound, request);
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_EQ(round->summary().state(), v1::ROUND_STATE_COLLECTING);
  EXPECT_EQ(round->summary().workers_present(), 1U);
  EXPECT_THAT(round->summary().reason(), ::testing::HasSubstr("w1"));
  EXPECT_GE(round->summary().elapsed().seconds(), 2);
  EXPECT_THAT(round->fragments(0).present(), ::testing::ElementsAre("w0"));
  EXPECT_THAT(round->fragments(0).awaited(), ::testing::ElementsAre("w1"));
  ASSERT_FALSE(cluster.coordinator.observer.waiting.empty());
  EXPECT_THAT(cluster.coordinator.observer.waiting.back(), ::testing::HasSubstr("w1"));
  EXPECT_TRUE(cluster.coordinator.Call(&Driver::ListWorkers, v1::ListWorkersRequest())->workers(1).participating());
}

TEST(DriverRunTest, SavesACheckpointOnDemand) {
  SimCluster cluster(RunYaml(2, 3, "fp32", "fp32"), 1);
  cluster.Start();
  EXPECT_EQ(cluster.coordinator.Call(&Driver::SaveCheckpoint, v1::SaveCheckpointRequest()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  cluster.Run();
  const auto saved = cluster.coordinator.Call(&Driver::SaveCheckpoint, v1::SaveCheckpointRequest());
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->version(), 0);
  const std::string file = saved->path() + "/model.safetensors";
  EXPECT_EQ(std::filesystem::file_size(file), saved->size_bytes());
  const auto written = std::filesystem::last_write_time(file);
  const auto again = cluster.coordinator.Call(&Driver::SaveCheckpoint, v1::SaveCheckpointRequest());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->path(), saved->path());
  EXPECT_EQ(std::filesystem::last_write_time(file), written);

  Answer<v1::SaveCheckpointResponse> third;
  cluster.coordinator.driver->SaveCheckpoint(v1::SaveCheckpointRequest(), Into(&third));
  cluster.coordinator.PumpDriver();
  EXPECT_EQ(cluster.coordinator.pool.size(), 1U);
  EXPECT_EQ(cluster.coordinator.disk.size(), 0U) << "commits would wait for it";
  cluster.coordinator.Pump();
  EXPECT_TRUE((*third)->ok());

  const auto reader = SafetensorsReader::Open(file);
  ASSERT_TRUE(reader.ok());
  std::vector<float> values(5);
  ASSERT_TRUE(reader->Read(TwoFragments()[0], absl::MakeSpan(values)).ok());
  EXPECT_THAT(values, ::testing::ElementsAre(-0.75F, -0.5F, -0.25F, 0.0F, 0.25F));
}

}  // namespace
}  // namespace diloco
