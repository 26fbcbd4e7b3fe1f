// A worker that dies or stands still holds nobody up for longer than the grace window, and is part of the run again as
// soon as it is back.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"

#include "common/base/crc32c.h"
#include "common/config/run_config.h"
#include "common/layout/layout_proto.h"
#include "common/rpc/channel.h"
#include "coordinator/store/recovery.h"
#include "coordinator/store/snapshot_file.h"
#include "diloco/v1/worker.grpc.pb.h"
#include "tests/chaos/cluster.h"
#include "tests/chaos/coordinator_log.h"
#include "tests/chaos/is_ok.h"
#include "tests/chaos/seed.h"
#include "tests/common/codec/naive_codec.h"

namespace diloco::testing {
namespace {

constexpr int kWorkers = 3;
constexpr int kVictim = 2;
constexpr absl::Duration kGrace = absl::Seconds(3);

std::string Config(absl::Duration lease) {
  return absl::StrFormat(
      "run: {id: victim, workers: %d, rounds: 1000000}\n"
      "method: eager\n"
      "inner_steps: 10\n"
      "fragments: {count: 2}\n"
      "rounds: {quorum: 2, heartbeat_interval: 200ms, lease: %ds, grace_window: %ds, snapshot_every: 4}\n",
      kWorkers, absl::ToInt64Seconds(lease), absl::ToInt64Seconds(kGrace));
}

class VictimTest : public ::testing::Test {
 protected:
  void Start(absl::Duration lease) {
    cluster_ = std::make_unique<Cluster>(ClusterOptions{.config_yaml = Config(lease),
                                                        .workers = kWorkers,
                                                        .step_time = absl::Milliseconds(30),
                                                        .coordinator = {.arguments = {"--log-level", "debug"}}});
    ASSERT_TRUE(IsOk(cluster_->Start()));
    ASSERT_TRUE(IsOk(cluster_->AwaitRounds(3)));
  }

  // How many of the victim's contributions rounds of their own have merged, from `round` on.
  int64_t MergedSince(int64_t round) {
    const absl::StatusOr<JournalReplay> replay = cluster_->Replay();
    if (!replay.ok()) return 0;
    int64_t merged = 0;
    for (int64_t r = round; r < replay->version(0); ++r) {
      merged += replay->Merged(0, r).contains(Cluster::IdOf(kVictim)) ? 1 : 0;
    }
    return merged;
  }

  // Of the victim's newest process; -1: none yet.
  int64_t FirstBoundary(int process) {
    for (const nlohmann::json& line : cluster_->TraceOf(kVictim)) {
      if (line.at("event") == "boundary" && line.at("process") == process) return line.at("round");
    }
    return -1;
  }

  Seed seed_;
  std::unique_ptr<Cluster> cluster_;
};

// From the second of two contributions of the round until the round was committed; infinite: it never was.
absl::Duration WaitedForTheThird(const std::string& log, int fragment, int64_t round) {
  const std::string of_round = absl::StrFormat(" fragment=%d round=%d ", fragment, round);
  std::vector<absl::Time> stored;
  for (const std::string& line : LinesOf(log, "contribution")) {
    if (line.find(of_round) != std::string::npos) stored.push_back(LogTime(line));
  }
  for (const std::string& line : LinesOf(log, "round_committed")) {
    if (line.find(of_round) != std::string::npos && stored.size() >= 2) return LogTime(line) - stored[1];
  }
  return absl::InfiniteDuration();
}

TEST_F(VictimTest, AKilledWorkerIsWaitedForWithinTheGraceWindowAndContributesAgainAtOnce) {
  // Far longer than the grace window, so that it is not the lease that lets the round close.
  ASSERT_NO_FATAL_FAILURE(Start(absl::Minutes(10)));
  for (int kill = 0; kill < 2; ++kill) {
    cluster_->worker(kVictim).Wait(seed_.Between(absl::ZeroDuration(), absl::Milliseconds(500))).IgnoreError();
    cluster_->KillWorker(kVictim);
    const int64_t without = cluster_->RoundsCommitted() + 1;  // The victim's last one may be complete.
    ASSERT_TRUE(IsOk(cluster_->AwaitRounds(without + 2)));
    const absl::StatusOr<JournalReplay> replay = cluster_->Replay();
    ASSERT_TRUE(IsOk(replay.status()));
    EXPECT_EQ(replay->Merged(0, without + 1), (std::set<std::string>{"w0", "w1"}));
    const absl::Duration waited = WaitedForTheThird(cluster_->coordinator().Log(), 0, without + 1);
    std::cout << "  the round without it closed " << waited << " after its quorum\n";
    EXPECT_LT(waited, kGrace + absl::Seconds(10)) << "plus what a busy machine takes";

    cluster_->StartWorker(kVictim);
    ASSERT_TRUE(IsOk(cluster_->Await([&] { return FirstBoundary(kill + 1) >= 0; })));
    const int64_t first = FirstBoundary(kill + 1);
    ASSERT_TRUE(IsOk(cluster_->AwaitRounds(first + 2)));
    const absl::StatusOr<JournalReplay> later = cluster_->Replay();
    ASSERT_TRUE(IsOk(later.status()));
    for (int f = 0; f < later->fragments(); ++f) {
      const auto settled = later->SettledOf(Cluster::IdOf(kVictim), f);
      const auto found = settled.find(first);
      ASSERT_NE(found, settled.end()) << "round " << first << " knows nothing of the victim";
      EXPECT_EQ(found->second.settlement, v1::SETTLEMENT_MERGED);
    }
  }
  EXPECT_TRUE(IsOk(cluster_->CheckNothingLost()));
}

TEST_F(VictimTest, AWorkerThatStoodStillForThreeRoundsIsRefusedOnceAtMost) {
  ASSERT_NO_FATAL_FAILURE(Start(absl::Seconds(2)));
  cluster_->worker(kVictim).Signal(SIGSTOP);
  const int64_t stopped_at = cluster_->RoundsCommitted();
  ASSERT_TRUE(IsOk(cluster_->AwaitRounds(stopped_at + 5)));  // What it had sent may close one or two of them.
  EXPECT_EQ(LinesOf(cluster_->coordinator().Log(), "worker_lost").size(), 1u);
  cluster_->worker(kVictim).Signal(SIGCONT);
  const int64_t continued_at = cluster_->RoundsCommitted();
  ASSERT_TRUE(IsOk(cluster_->Await([&] { return MergedSince(continued_at) >= 3; })));

  const absl::StatusOr<JournalReplay> replay = cluster_->Replay();
  ASSERT_TRUE(IsOk(replay.status()));
  for (int f = 0; f < replay->fragments(); ++f) {
    int not_merged = 0;
    for (const auto& [round, settled] : replay->SettledOf(Cluster::IdOf(kVictim), f)) {
      not_merged += settled.settlement == v1::SETTLEMENT_MERGED ? 0 : 1;
    }
    EXPECT_LE(not_merged, 1) << "fragment " << f;
  }
  EXPECT_TRUE(cluster_->worker(kVictim).running());
  EXPECT_EQ(FirstBoundary(1), -1) << "it is still the same process";
  EXPECT_TRUE(IsOk(cluster_->CheckNothingLost()));
}

// A whole contribution of fragment 0 as an older process of the victim would have sent it.
v1::UploadRequest OldBytes(const std::string& data_folder, uint64_t incarnation, int64_t round) {
  const uint64_t newest = *ListFolder(PosixFileSystem(), data_folder)->snapshots.rbegin();
  const v1::RunRecord run =
      ReadSnapshotFile(PosixFileSystem(), SnapshotPath(data_folder, newest), newest)->record.run();
  const RunConfig config = *ParseRunConfig(run.config_yaml(), "snapshot");
  const Layout layout = *Layout::Cut(TensorSpecsFromProto(run.tensors()), config.fragments.cut);
  const std::vector<float> values(static_cast<size_t>(layout.fragments()[0].count), 0.5f);
  v1::UploadRequest request;
  request.set_run_id(run.run_id());
  request.set_worker_id(Cluster::IdOf(kVictim));
  request.set_incarnation(incarnation);
  request.set_round(round);
  *request.mutable_layout_digest() = run.layout_digest();
  request.set_codec(config.wire.uplink);
  request.set_element_count(values.size());
  request.set_payload(NaiveEncode(config.wire.uplink, values));
  request.set_contribution_bytes(request.payload().size());
  request.set_chunk_bytes(static_cast<uint32_t>(request.payload().size()));
  request.mutable_contribution_digest()->set_value(DigestOf(request.payload()).Bytes());
  request.set_weight(1);
  request.set_crc32c(ComputeCrc32c(request.payload()).value);
  return request;
}

TEST_F(VictimTest, BytesOfAnOlderProcessAreRefusedAfterBothSidesCameBack) {
  ASSERT_NO_FATAL_FAILURE(Start(absl::Minutes(10)));
  const auto incarnation = [&]() -> uint64_t {
    const absl::StatusOr<nlohmann::json> list = cluster_->coordinator().Ctl({"worker", "list"});
    if (!list.ok()) return 0;
    for (const nlohmann::json& worker : list->at("workers")) {
      if (worker.at("worker_id") == Cluster::IdOf(kVictim))
        return std::stoull(worker.at("incarnation").get<std::string>());
    }
    return 0;
  };
  const uint64_t old_incarnation = incarnation();
  ASSERT_NE(old_incarnation, 0u);
  cluster_->KillWorker(kVictim);
  cluster_->coordinator().Kill();
  ASSERT_TRUE(IsOk(cluster_->StartCoordinator()));
  cluster_->StartWorker(kVictim);
  ASSERT_TRUE(IsOk(cluster_->Await([&] { return FirstBoundary(1) >= 0; })));
  ASSERT_NE(incarnation(), old_incarnation);

  const v1::UploadRequest old =
      OldBytes(cluster_->coordinator().data_folder(), old_incarnation, cluster_->RoundsCommitted() + 1);
  const auto stub = v1::WorkerService::NewStub(MakeChannel(cluster_->coordinator().address()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoSeconds(kPatience));
  const auto stream = stub->Upload(&context);
  stream->Write(old);
  v1::UploadResponse response;
  EXPECT_FALSE(stream->Read(&response)) << response.DebugString();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::ABORTED);

  ASSERT_TRUE(IsOk(cluster_->AwaitRounds(old.round() + 2)));
  const absl::StatusOr<JournalReplay> replay = cluster_->Replay();
  ASSERT_TRUE(IsOk(replay.status()));
  for (const auto& [round, settled] : replay->SettledOf(Cluster::IdOf(kVictim), 0)) {
    EXPECT_NE(settled.digest.Bytes(), old.contribution_digest().value()) << "round " << round;
  }
  EXPECT_TRUE(IsOk(cluster_->CheckNothingLost()));
}

}  // namespace
}  // namespace diloco::testing
