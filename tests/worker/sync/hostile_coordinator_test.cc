// Whatever comes in a coordinator's place: the worker's machines take it, ask again, or end with an error. Never more.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/stubs/logging.h"

#include "tests/support/hostile_message.h"
#include "tests/worker/sync/published_delta.h"
#include "worker/sync/control_core.h"
#include "worker/sync/sync_core.h"

namespace diloco {
namespace {

constexpr StepScalars kScalars{.rate = 0.5f, .momentum = 0.5f, .participating_weight = 1};

class SilentNetwork final : public SyncNetwork {
 public:
  void OpenUpload(int, uint64_t call) override { upload_call = call; }
  void CancelUpload(int, uint64_t) override {}
  void Send(int, v1::UploadRequest request) override { sent = std::move(request); }
  void FetchSnapshot(uint64_t call, v1::FetchSnapshotRequest) override {
    download_call = call;
    wants_snapshot = true;
  }
  void OpenSubscription(uint64_t call, v1::SubscribeRequest) override {
    download_call = call;
    wants_snapshot = false;
  }
  void ReadNext(uint64_t) override {}
  void CancelDownload(uint64_t) override {}

  uint64_t upload_call = 0;
  uint64_t download_call = 0;
  bool wants_snapshot = false;
  v1::UploadRequest sent;
};

// A worker of one fragment of two elements, from its first word on.
class World {
 public:
  World() {
    config_ = ParseRunConfig(
                  "run: {id: test, workers: 1, rounds: 4}\nmethod: eager\ninner_steps: 2\n"
                  "outer: {rate: 0.5, momentum: 0.5}\nfragments: {count: 1}\nwire: {uplink: fp32, downlink: fp32}\n",
                  "test")
                  .value();
    core_.emplace(SyncCore::Options{.worker_id = "solo", .incarnation = 5, .first_round = 0, .chunk_bytes = 4},
                  &config_, &layout_, &exchange_, &board_, &network_);
    EXPECT_TRUE(core_->HandleTime(now_).ok());
  }

  absl::Status Handle(SyncEvent event) { return core_->Handle(std::move(event), now_); }
  absl::Status Read(const v1::FetchSnapshotResponse& item) {
    return Handle(SnapshotItemRead{network_.download_call, item});
  }
  absl::Status Read(const v1::SubscribeResponse& item) {
    return Handle(SubscriptionItemRead{network_.download_call, item});
  }
  absl::Status Finished() { return Handle(DownloadFinished{network_.download_call, absl::OkStatus()}); }

  // Two items: the header, the only chunk.
  std::vector<v1::FetchSnapshotResponse> Snapshot() const {
    std::vector<v1::FetchSnapshotResponse> items(2);
    v1::SnapshotHeader* header = items[0].mutable_header();
    header->set_run_id("test");
    header->mutable_layout_digest()->set_value(layout_.digest().Bytes());
    header->add_consensus_digests()->set_value(theirs_.ComputeDigest().Bytes());
    header->add_settled_rounds(-1);
    *header->mutable_scalars() = StepScalarsToProto(kScalars);
    v1::SnapshotChunk* chunk = items[1].mutable_chunk();
    chunk->set_run_id("test");
    for (const auto& array : {theirs_.parameters(), absl::Span<const float>(theirs_.state()[0])}) {
      chunk->mutable_payload()->append(reinterpret_cast<const char*>(array.data()), array.size() * sizeof(float));
    }
    chunk->set_crc32c(ComputeCrc32c(chunk->payload()).value);
    header->set_total_bytes(chunk->payload().size());
    return items;
  }
  void TakeSnapshot() {
    for (const v1::FetchSnapshotResponse& item : Snapshot()) EXPECT_TRUE(Read(item).ok());
    EXPECT_TRUE(Finished().ok());
  }

  // In round 0, its contribution on the way.
  void Train() {
    TakeSnapshot();
    EXPECT_TRUE(Handle(TrainingAdvanced{0, 0}).ok());
    EXPECT_TRUE(Handle(OuterGradientTaken{0, 0, {0.5f, 0.25f}, 1}).ok());
    EXPECT_TRUE(Handle(TrainingAdvanced{0, 1}).ok());
  }

  // Three items of round 0: chunk, settled list, commit record.
  std::vector<v1::SubscribeResponse> Delta() {
    const Digest digest = Digest::FromBytes(network_.sent.contribution_digest().value());
    const PublishedDelta delta = PublishDelta(0, {0.5f, 0.25f}, kScalars, {{0, digest}}, &theirs_);
    std::vector<v1::SubscribeResponse> items(3);
    *items[0].mutable_chunk() = delta.chunk;
    *items[1].mutable_settled() = delta.settled;
    *items[2].mutable_commit() = delta.commit;
    return items;
  }

  // Goes on for a while: what it asks for again it is given, then it trains a round. `items`: an average that comes
  // meanwhile, whether it still fits or not.
  void GoOn(const std::vector<v1::SubscribeResponse>& items) {
    for (int i = 0; i < 5; ++i) {
      now_ = now_ + absl::Seconds(20);
      if (!core_->HandleTime(now_).ok()) return;
      if (!network_.wants_snapshot) continue;
      for (const v1::FetchSnapshotResponse& item : Snapshot()) {
        if (!Read(item).ok()) return;
      }
      if (!Finished().ok()) return;
    }
    for (const v1::SubscribeResponse& item : items) {
      if (network_.wants_snapshot || !Read(item).ok()) return;
    }
    (void)Handle(TrainingAdvanced{0, 2});
  }

  SilentNetwork& network() { return network_; }

 private:
  const Layout layout_ = Layout::Cut({{.name = "a", .shape = {2}}}, {.count = 1}).value();
  Consensus theirs_{FindOuterOptimizer("nesterov"), {1, 2}};
  MonotonicTime now_{1};
  SteadyClock clock_;
  Exchange exchange_{{.coordinator = "host:1", .give_up_after = absl::ZeroDuration()}, &clock_};
  StatusBoard board_;
  SilentNetwork network_;
  RunConfig config_;
  std::optional<SyncCore> core_;
};

class HostileCoordinatorTest : public ::testing::Test {
 protected:
  // All forms of `good` that can come off the wire, each for a worker of its own.
  template <typename Item>
  static void ForEach(const Item& good, const std::function<void(const Item&)>& visit) {
    int visited = 0;
    for (const testing::HostileMessage& hostile : testing::HostileMessages(good)) {
      SCOPED_TRACE(hostile.what);
      Item item;
      if (!item.ParseFromString(hostile.message->SerializeAsString())) continue;
      ++visited;
      visit(item);
    }
    EXPECT_GT(visited, 20);
  }

  static void ExpectAnError(const absl::Status& status) {
    EXPECT_TRUE(status.ok() || absl::IsDataLoss(status) || absl::IsInvalidArgument(status)) << status;
  }

  const google::protobuf::LogSilencer silent_;  // It reports each text that is not UTF-8.
};

TEST_F(HostileCoordinatorTest, SnapshotsMayHoldAnything) {
  for (const size_t spoiled : {0, 1}) {
    ForEach<v1::FetchSnapshotResponse>(World().Snapshot()[spoiled], [spoiled](const v1::FetchSnapshotResponse& item) {
      World world;
      std::vector<v1::FetchSnapshotResponse> items = world.Snapshot();
      items[spoiled] = item;
      absl::Status status;
      for (size_t i = 0; i < items.size() && status.ok(); ++i) status = world.Read(items[i]);
      if (status.ok()) status = world.Finished();
      ExpectAnError(status);
      if (status.ok()) world.GoOn({});
    });
  }
}

TEST_F(HostileCoordinatorTest, GlobalDeltasMayHoldAnything) {
  World sample;
  sample.Train();
  const std::vector<v1::SubscribeResponse> good = sample.Delta();
  for (size_t spoiled = 0; spoiled < good.size(); ++spoiled) {
    ForEach<v1::SubscribeResponse>(good[spoiled], [&, spoiled](const v1::SubscribeResponse& item) {
      World world;
      world.Train();
      std::vector<v1::SubscribeResponse> items = good;
      items[spoiled] = item;
      if (spoiled == 1 && item.has_settled()) {
        // What is wrong with the list is to be found behind its digest.
        items[2].mutable_commit()->mutable_settled_digest()->set_value(
            DigestOf(item.settled().SerializeAsString()).Bytes());
      }
      absl::Status status;
      for (size_t i = 0; i < items.size() && status.ok(); ++i) status = world.Read(items[i]);
      ExpectAnError(status);
      if (status.ok()) world.GoOn(good);
    });
  }
}

TEST_F(HostileCoordinatorTest, TheEndMayHoldAnything) {
  v1::SubscribeResponse end;
  end.mutable_end()->set_run_id("test");
  end.mutable_end()->set_rounds(0);
  end.mutable_end()->add_consensus_digests();
  end.mutable_end()->add_settled()->mutable_id()->set_worker_id("solo");
  ForEach<v1::SubscribeResponse>(end, [](const v1::SubscribeResponse& item) {
    World world;
    world.Train();
    const absl::Status status = world.Read(item);
    ExpectAnError(status);
    if (status.ok()) world.GoOn({});
  });
}

TEST_F(HostileCoordinatorTest, AnswersToUploadsMayHoldAnything) {
  v1::UploadResponse response;
  response.set_run_id("test");
  v1::ChunkRange* range = response.add_held();
  range->set_end(1);
  for (int verdict = v1::ContributionVerdict_MIN; verdict <= v1::ContributionVerdict_MAX; ++verdict) {
    response.set_verdict(static_cast<v1::ContributionVerdict>(verdict));
    ForEach<v1::UploadResponse>(response, [](const v1::UploadResponse& item) {
      World world;
      world.Train();
      ExpectAnError(world.Handle(UploadReplied{0, world.network().upload_call, item}));
      world.GoOn(world.Delta());
    });
  }
}

TEST_F(HostileCoordinatorTest, ASnapshotFromBehindTheEndIsAnError) {
  World world;
  std::vector<v1::FetchSnapshotResponse> items = world.Snapshot();
  items[0].mutable_header()->set_version(5);
  for (const v1::FetchSnapshotResponse& item : items) ASSERT_TRUE(world.Read(item).ok());
  const absl::Status status = world.Finished();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(std::string(status.message()), "snapshot of version 5 in a run of 4 rounds");
}

class SilentControl final : public ControlNetwork {
 public:
  void OpenSession(uint64_t new_call) override { call = new_call; }
  void Send(uint64_t, v1::SessionRequest) override {}
  void CancelSession(uint64_t) override {}
  void Join(v1::JoinRequest) override {}

  uint64_t call = 0;
};

TEST_F(HostileCoordinatorTest, HeartbeatsNeitherSpinNorStop) {
  const auto next_wake = [](int64_t heartbeat_seconds, int64_t lease_seconds) {
    v1::JoinResponse joined;
    joined.mutable_heartbeat_interval()->set_seconds(heartbeat_seconds);
    joined.mutable_lease()->set_seconds(lease_seconds);
    SteadyClock clock;
    SilentControl network;
    Exchange exchange({.coordinator = "host:1"}, &clock);
    StatusBoard board;
    ControlCore core({.join = {}, .joined = joined}, &exchange, &board, &network);
    constexpr MonotonicTime kNow{1};
    core.HandleTime(kNow);
    return core.next_wake() - kNow;
  };
  constexpr int64_t kEver = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(next_wake(2, 20), absl::Seconds(2));
  EXPECT_EQ(next_wake(0, 20), absl::Milliseconds(10));
  EXPECT_EQ(next_wake(-kEver, 20), absl::Milliseconds(10));
  EXPECT_EQ(next_wake(kEver, kEver), absl::Hours(1));
  EXPECT_EQ(next_wake(kEver, 0), absl::Milliseconds(100));
}

TEST_F(HostileCoordinatorTest, JoinsAndDirectivesMayHoldAnything) {
  v1::JoinResponse joined;
  joined.mutable_heartbeat_interval()->set_seconds(2);
  joined.mutable_lease()->set_seconds(20);
  joined.mutable_directive()->set_state(v1::RUN_STATE_TRAINING);
  v1::SessionResponse answer;
  *answer.mutable_directive() = joined.directive();
  const auto live = [](const v1::JoinResponse& with, const v1::SessionResponse& told) {
    SteadyClock clock;
    SilentControl network;
    Exchange exchange({.coordinator = "host:1"}, &clock);
    StatusBoard board;
    MonotonicTime now{1};
    ControlCore core({.join = {}, .joined = with}, &exchange, &board, &network);
    core.HandleTime(now);
    core.Handle(SessionAnswered{network.call, told}, now);
    core.Handle(EvaluationMade{}, now);
    for (int i = 0; i < 5; ++i) {
      now = now + absl::Seconds(20);
      core.HandleTime(now);
      core.Handle(HeartbeatWritten{network.call}, now);
    }
  };
  ForEach<v1::JoinResponse>(joined, [&](const v1::JoinResponse& item) { live(item, answer); });
  ForEach<v1::SessionResponse>(answer, [&](const v1::SessionResponse& item) { live(joined, item); });
}

}  // namespace
}  // namespace diloco
